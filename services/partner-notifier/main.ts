import { consumeEvents } from '@triplock/consumer';
import { openPartners, targetPolicyOf } from '@triplock/partners';
import { openDatabase, readDurability } from '@triplock/postgres';
import {
  backoffMs,
  runListener,
  runLoop,
  runService,
  type IdleMs,
  type Logger,
  type Loop,
  type Pass,
  type Service,
} from '@triplock/runtime';
import { readConfig, type Config } from './config.ts';
import { notifyPartners, openDeliveries, type SendRates } from './deliveries.ts';
import { askEndpoints } from './endpoint-verification.ts';
import { notifierMetrics } from './metrics.ts';
import { partnerNotifier } from './service.ts';
import { measureBacklog, reapDeliveries, reapSettings, releaseDeliveries } from './upkeep.ts';
import { createSendWebhook, resolverFor } from './webhook-client.ts';
import { createSender, type Notifier, type Sender } from './webhook-sender.ts';

// What an attempt needs besides the webhook itself: its endpoint's look-up and its record.
const leaseMarginMs = 30_000;
const backlogEveryMs = 10_000;
const reapEveryMs = 60_000;
// Gateways notify of endpoints that were set and of webhooks that were asked for again. Looks find
// what they did not announce: their connection was lost, or an operator set it.
const lookRests = { firstMs: 1_000, maxMs: 5_000 };
// Whoever may NOTIFY, or sets an endpoint again and again, has twenty passes a second and no more.
const looksApartMs = 50;
// How long to rest while nothing comes, ever longer, until the next look for what nobody tells of:
// what failed and is due again, and what a sender that died has left.
const sendRests = { firstMs: 100, maxMs: 2_000 };
// What is due within this time is leased together: a lease costs more than what is in it.
const sendApartMs = 25;
// Stays below the time a service has for its shutdown, so that what was given up is still recorded.
const shutdownGraceMs = 8_000;
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

  const disableAfterMs = config.WEBHOOK_DISABLE_AFTER_HOURS * hourMs;
  const deliveries = openDeliveries(database, ratesOf(config), { disableAfterMs });
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
  runClosing(
    service,
    'measure backlog',
    { idleMs: backlogEveryMs },
    measureBacklog(deliveries, metrics),
  );
  followEndpoints(config, service, notifier, sender);
  const retention = {
    deliveredMs: config.DELIVERIES_RETENTION_HOURS * hourMs,
    undeliveredMs: config.UNDELIVERED_RETENTION_HOURS * hourMs,
  };
  runClosing(
    service,
    'reap deliveries',
    { idleMs: reapEveryMs },
    reapDeliveries(deliveries, metrics, retention),
  );
  runClosing(service, 'reap settings', { idleMs: reapEveryMs }, reapSettings(deliveries, metrics));

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
function runClosing(
  { logger, onClose }: Service,
  name: string,
  rests: { idleMs: IdleMs; apartMs?: number; wokenApartMs?: number },
  pass: Pass,
): Loop {
  const loop = runLoop(pass, { name, ...rests, logger });
  onClose(name, () => loop.stop());
  return loop;
}

/**
 * Asks the endpoints that were set whether they want webhooks, sends the tests that partners ask
 * for, and has sent what is parked for those that are open, and what was asked for again: when a
 * gateway notifies, or at the next look.
 */
function followEndpoints(
  config: Config,
  service: Service,
  notifier: Notifier,
  sender: Sender,
): void {
  const { logger, onClose } = service;
  const stopping = new AbortController();
  const verification = { policy: config.WEBHOOK_VERIFICATION, stopping: stopping.signal };
  const rests = {
    idleMs: (idleBefore: number) => backoffMs(idleBefore, lookRests),
    apartMs: looksApartMs,
    wokenApartMs: looksApartMs,
  };

  const release = wakingWhenDone(releaseDeliveries(notifier.deliveries), sender);
  const releasing = runClosing(service, 'release deliveries', rests, release);
  const ask = askEndpoints(notifier, verification, () => releasing.wake());
  onClose('answers of endpoints', ask.settled);
  const asking = runClosing(service, 'ask endpoints', rests, ask);
  onClose('questions to endpoints', async () => stopping.abort());
  const wakeAll = () => {
    for (const { wake } of [asking, releasing, sender]) wake();
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

/** Sends for ever. Stopping takes no new deliveries and lets those under way come to their end. */
function runSender(sender: Sender, logger: Logger): Pick<Loop, 'stop'> {
  let idle = 0;
  const pass = async () => {
    // A partner whose share is full has more to send as soon as one of its attempts ends.
    const done =
      (await sender.pass()) || (await sender.somethingWithin(backoffMs(idle, sendRests)));
    idle = done > 0 ? 0 : idle + 1;
    return done;
  };
  const loop = runLoop(pass, { name: 'send webhooks', idleMs: 1, apartMs: sendApartMs, logger });
  return {
    async stop() {
      const graceIsOver = setTimeout(() => sender.giveUp(), shutdownGraceMs);
      sender.wake();
      await loop.stop();
      await sender.settled();
      clearTimeout(graceIsOver);
    },
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
