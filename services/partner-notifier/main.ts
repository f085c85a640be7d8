import { consumeEvents } from '@triplock/consumer';
import { openPartners, targetPolicyOf } from '@triplock/partners';
import { openDatabase, readDurability } from '@triplock/postgres';
import { runLoop, runService, type Pass } from '@triplock/runtime';
import { readConfig, type Config } from './config.ts';
import { notifyPartners, openDeliveries, type SendRates } from './deliveries.ts';
import { verificationPolicyOf, verifyEndpoints } from './endpoint-verification.ts';
import { notifierMetrics } from './metrics.ts';
import { partnerNotifier } from './service.ts';
import { measureBacklog, reapDeliveries, releaseDeliveries } from './upkeep.ts';
import { createSendWebhook, resolverFor } from './webhook-client.ts';
import { createSender, runSender, type Notifier } from './webhook-sender.ts';

// What an attempt needs besides the webhook itself: its endpoint's look-up and its record.
const leaseMarginMs = 30_000;
const backlogEveryMs = 10_000;
const reapEveryMs = 60_000;
// An endpoint is asked this long after it was set, and what was parked is sent this long after it
// is open.
const verifyEveryMs = 1_000;
const releaseEveryMs = 1_000;
const hourMs = 3_600_000;

await runService(partnerNotifier, readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  const metrics = notifierMetrics(service.metrics);
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    // An event is acknowledged after the commit: one that vanished would not be sent again.
    onConnect: readDurability,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());

  const deliveries = openDeliveries(database, ratesOf(config));
  const notifier: Notifier = {
    deliveries,
    partners: openPartners(database, { webhookKeys: config.WEBHOOK_KEYS }),
    ...attemptsOf(config),
    metrics,
    logger,
    crashPoints,
  };
  const sender = createSender(notifier, {
    owner: config.INSTANCE_NAME,
    leaseMs: config.WEBHOOK_TIMEOUT_MS + leaseMarginMs,
    inFlightMax: config.WEBHOOKS_IN_FLIGHT_MAX,
  });
  const sending = runSender(sender, logger);
  service.onClose('sender', () => sending.stop());
  runPass('measure backlog', backlogEveryMs, measureBacklog(deliveries, metrics));
  const stopping = new AbortController();
  const policy = config.WEBHOOK_VERIFICATION ?? verificationPolicyOf(config.TRIPLOCK_MODE);
  const verification = { policy, stopping: stopping.signal };
  runPass('verify endpoints', verifyEveryMs, verifyEndpoints(notifier, verification));
  service.onClose('questions to endpoints', async () => stopping.abort());
  runPass('release deliveries', releaseEveryMs, releaseDeliveries(deliveries));
  const retention = {
    deliveredMs: config.DELIVERIES_RETENTION_HOURS * hourMs,
    undeliveredMs: config.UNDELIVERED_RETENTION_HOURS * hourMs,
  };
  runPass('reap deliveries', reapEveryMs, reapDeliveries(deliveries, metrics, retention));

  const events = await consumeEvents(service, config, {
    name: 'partner-notifier',
    shortName: 'notifier',
    database,
    effect: notifyPartners(deliveries, sender),
    // A webhook is at most this much later for it. What waits after an outage fills a batch sooner.
    batch: { apartMs: 40, itemsMax: 1_000 },
    countReaped: (rows) => metrics.reaped.count('inbox', rows),
  });

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => events.ping() },
  });

  function runPass(name: string, idleMs: number, pass: Pass): void {
    const loop = runLoop(pass, { name, idleMs, logger });
    service.onClose(name, () => loop.stop());
  }
});

function ratesOf(config: Config): SendRates {
  return {
    partner: {
      inFlight: config.WEBHOOKS_PER_PARTNER_MAX,
      aSecond: config.WEBHOOKS_PER_PARTNER_PER_SECOND,
    },
    host: {
      inFlight: config.WEBHOOKS_PER_HOST_MAX,
      aSecond: config.WEBHOOKS_PER_HOST_PER_SECOND,
    },
  };
}

/** How webhooks are sent, and when again. */
function attemptsOf(config: Config): Pick<Notifier, 'send' | 'retry'> {
  const policy = config.WEBHOOK_TARGETS ?? targetPolicyOf(config.TRIPLOCK_MODE);
  return {
    send: createSendWebhook({
      policy,
      resolve: resolverFor(policy),
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
    }),
    retry: {
      firstMs: config.WEBHOOK_RETRY_FIRST_MS,
      maxMs: config.WEBHOOK_RETRY_LONGEST_MS,
      giveUpAfterMs: config.WEBHOOK_GIVE_UP_AFTER_MS,
    },
  };
}
