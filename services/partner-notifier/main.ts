import { consumeEvents } from '@triplock/consumer';
import { openPartners, targetPolicyOf } from '@triplock/partners';
import { openDatabase, readDurability } from '@triplock/postgres';
import {
  backoffMs,
  runListener,
  runLoop,
  runService,
  type IdleMs,
  type Loop,
  type Pass,
  type Service,
} from '@triplock/runtime';
import { readConfig, type Config } from './config.ts';
import { notifyPartners, openDeliveries, type SendRates } from './deliveries.ts';
import { verificationPolicyOf, verifyEndpoints } from './endpoint-verification.ts';
import { notifierMetrics } from './metrics.ts';
import { partnerNotifier } from './service.ts';
import { measureBacklog, reapDeliveries, releaseDeliveries } from './upkeep.ts';
import { createSendWebhook, resolverFor } from './webhook-client.ts';
import { createSender, runSender, type Notifier, type Sender } from './webhook-sender.ts';

// What an attempt needs besides the webhook itself: its endpoint's look-up and its record.
const leaseMarginMs = 30_000;
const backlogEveryMs = 10_000;
const reapEveryMs = 60_000;
// Gateways notify of endpoints that were set and of webhooks that were asked for again. Looks find
// what they did not announce: their connection was lost, or an operator set it.
const lookRests = { firstMs: 1_000, maxMs: 5_000 };
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
  runClosing(service, 'measure backlog', backlogEveryMs, measureBacklog(deliveries, metrics));
  followEndpoints(config, service, notifier, sender);
  const retention = {
    deliveredMs: config.DELIVERIES_RETENTION_HOURS * hourMs,
    undeliveredMs: config.UNDELIVERED_RETENTION_HOURS * hourMs,
  };
  runClosing(
    service,
    'reap deliveries',
    reapEveryMs,
    reapDeliveries(deliveries, metrics, retention),
  );

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
});

/** Runs a pass until the service closes. */
function runClosing({ logger, onClose }: Service, name: string, idleMs: IdleMs, pass: Pass): Loop {
  const loop = runLoop(pass, { name, idleMs, logger });
  onClose(name, () => loop.stop());
  return loop;
}

/**
 * Asks the endpoints that were set whether they want webhooks, and has sent what is parked for
 * those that do, and what was asked for again: when a gateway notifies, or at the next look.
 */
function followEndpoints(
  config: Config,
  service: Service,
  notifier: Notifier,
  sender: Sender,
): void {
  const { logger, onClose } = service;
  const stopping = new AbortController();
  const policy = config.WEBHOOK_VERIFICATION ?? verificationPolicyOf(config.TRIPLOCK_MODE);
  const verification = { policy, stopping: stopping.signal };
  const restMs = (idleBefore: number) => backoffMs(idleBefore, lookRests);

  const release = wakingWhenDone(releaseDeliveries(notifier.deliveries), sender);
  const releasing = runClosing(service, 'release deliveries', restMs, release);
  const verify = wakingWhenDone(verifyEndpoints(notifier, verification), releasing);
  const verifying = runClosing(service, 'verify endpoints', restMs, verify);
  onClose('questions to endpoints', async () => stopping.abort());
  const wakeAll = () => {
    for (const { wake } of [verifying, releasing, sender]) wake();
  };
  const listening = runListener(notifier.partners.listen, wakeAll, logger);
  onClose('listening', () => listening.stop());
}

/** A pass that wakes who goes on with what it did. */
function wakingWhenDone(pass: Pass, next: Pick<Loop, 'wake'>): Pass {
  return async () => {
    const done = await pass();
    if (done > 0) next.wake();
    return done;
  };
}

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
