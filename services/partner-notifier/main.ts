import {
  eventsHandler,
  gatherEvents,
  openInbox,
  openInboxReaper,
  openRefusedMessages,
  watchInHand,
  type ReapedInbox,
} from '@triplock/inbox';
import { openPartners, targetPolicyOf } from '@triplock/partners';
import { openDatabase, type Database } from '@triplock/postgres';
import { runLoop, runService, type Service } from '@triplock/runtime';
import { openSubscriber, readSubscriptionRetention } from '@triplock/transport';
import { resolverFor } from './checked-lookup.ts';
import { readConfig, type Config } from './config.ts';
import { openDeliveries } from './deliveries.ts';
import { measureBacklog } from './measure-backlog.ts';
import { notifierMetrics, type NotifierMetrics } from './metrics.ts';
import { notifyPartners } from './notify-partners.ts';
import { reapNotified } from './reap-notified.ts';
import { createSender, runSendLoop } from './send-loop.ts';
import { createSendWebhook } from './send-webhook.ts';

const consumer = 'partner-notifier';

// What an attempt needs besides the webhook itself: its endpoint's look-up and its record.
const leaseMarginMs = 30_000;
// Fewer and larger transactions cost less, and a webhook is at most this much later for it.
const batchLimits = { apartMs: 20, itemsMax: 256 };
const backlogEveryMs = 10_000;
const reapEveryMs = 60_000;
const hourMs = 3_600_000;

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

  const inbox = openInbox(database, consumer);
  await forgetWhatIsOld(config, service, { inbox, database, metrics });
  const subscriber = openSubscriber({
    ...subscriptionOf(config),
    maxInFlight: config.EVENTS_IN_FLIGHT_MAX,
    logger,
    handle: eventsHandler({
      receive: gatherEvents((received) => notifyPartners(inbox, received), batchLimits),
      refusedMessages: openRefusedMessages(database, consumer),
      metrics,
      logger,
      reached: (step) => crashPoints.reached(`notifier.${step}`),
    }),
  });
  service.onClose('subscriber', () => subscriber.close());
  watchInHand(registry, 'triplock_notifier', subscriber.inHand);

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => subscriber.ping() },
  });
});

function subscriptionOf(config: Config) {
  return {
    projectId: config.PUBSUB_PROJECT_ID,
    emulatorHost: config.PUBSUB_EMULATOR_HOST,
    subscription: config.EVENTS_SUBSCRIPTION,
  };
}

/** Reaps by the horizons of the settings, once it is sure that they outlive what may come again. */
async function forgetWhatIsOld(
  config: Config,
  { logger, onClose }: Service,
  parts: { inbox: ReapedInbox; database: Database; metrics: NotifierMetrics },
): Promise<void> {
  const reapInbox = await openInboxReaper({
    ...parts,
    keepInboxHours: config.INBOX_RETENTION_HOURS,
    subscription: await readSubscriptionRetention(subscriptionOf(config)),
    logger,
  });
  const keepDeliveriesMs = config.DELIVERIES_RETENTION_HOURS * hourMs;
  const pass = reapNotified({ ...parts, reapInbox, keepDeliveriesMs });
  const reaper = runLoop(pass, { name: 'reap', idleMs: reapEveryMs, logger });
  onClose('reaper', () => reaper.stop());
}

function sendWebhooks(
  config: Config,
  service: Service,
  parts: Omit<Parameters<typeof createSender>[0], 'send' | 'retry'>,
): void {
  const policy = config.WEBHOOK_TARGETS ?? targetPolicyOf(config.TRIPLOCK_MODE);
  const send = createSendWebhook({
    policy,
    resolve: resolverFor(policy),
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
