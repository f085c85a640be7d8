import { openInbox, openRefusedMessages } from '@triplock/inbox';
import { openPartners, targetPolicyOf } from '@triplock/partners';
import { openDatabase } from '@triplock/postgres';
import { runLoop, runService, type Service } from '@triplock/runtime';
import { openSubscriber } from '@triplock/transport';
import { dnsResolver } from './checked-lookup.ts';
import { readConfig, type Config } from './config.ts';
import { openDeliveries } from './deliveries.ts';
import { eventsHandler } from './events-subscriber.ts';
import { measureBacklog } from './measure-backlog.ts';
import { notifierMetrics } from './metrics.ts';
import { createSender, runSendLoop } from './send-loop.ts';
import { createSendWebhook } from './send-webhook.ts';

const consumer = 'partner-notifier';

// What an attempt needs besides the webhook itself: its endpoint's look-up and its record.
const leaseMarginMs = 30_000;
const backlogEveryMs = 10_000;

await runService(consumer, readConfig, async (config, service) => {
  const { logger, metrics: registry, crashPoints } = service;
  const metrics = notifierMetrics(registry);
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());

  const deliveries = openDeliveries(database);
  sendWebhooks(config, service, {
    deliveries,
    partners: openPartners(database),
    metrics,
    logger,
    crashPoints,
  });
  const backlog = runLoop(measureBacklog(deliveries, metrics), {
    name: 'measure backlog',
    idleMs: backlogEveryMs,
    logger,
  });
  service.onClose('backlog', () => backlog.stop());

  const subscriber = openSubscriber({
    projectId: config.PUBSUB_PROJECT_ID,
    emulatorHost: config.PUBSUB_EMULATOR_HOST,
    subscription: config.EVENTS_SUBSCRIPTION,
    maxInFlight: config.EVENTS_IN_FLIGHT_MAX,
    logger,
    handle: eventsHandler({
      inbox: openInbox(database, consumer),
      refusedMessages: openRefusedMessages(database, consumer),
      metrics,
      logger,
      crashPoints,
    }),
  });
  service.onClose('subscriber', () => subscriber.close());

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => subscriber.ping() },
  });
});

function sendWebhooks(
  config: Config,
  service: Service,
  parts: Omit<Parameters<typeof createSender>[0], 'send' | 'retry'>,
): void {
  const send = createSendWebhook({
    policy: targetPolicyOf(config.TRIPLOCK_MODE),
    resolve: dnsResolver(),
    timeoutMs: config.WEBHOOK_TIMEOUT_MS,
  });
  const retry = {
    firstMs: config.WEBHOOK_RETRY_FIRST_MS,
    maxMs: config.WEBHOOK_RETRY_LONGEST_MS,
    giveUpAfterMs: config.WEBHOOK_GIVE_UP_AFTER_MS,
  };
  const sender = createSender(
    { ...parts, send, retry },
    {
      owner: config.INSTANCE_NAME,
      leaseMs: config.WEBHOOK_TIMEOUT_MS + leaseMarginMs,
      inFlightMax: config.WEBHOOKS_IN_FLIGHT_MAX,
      perPartnerMax: config.WEBHOOKS_PER_PARTNER_MAX,
    },
  );
  const loop = runSendLoop(sender, parts.logger);
  service.onClose('send loop', () => loop.stop());
}
