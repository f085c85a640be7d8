import { type Partners, UnopenedSecretError } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import {
  annotateSpan,
  backoffMs,
  inSpan,
  runLoop,
  type CrashPoints,
  type Logger,
  type Loop,
  type Pass,
} from '@triplock/runtime';
import type {
  AttemptRecord,
  Deliveries,
  Lease,
  LeasedDelivery,
  ReadLease,
  RecordOutcome,
  WhoSends,
} from './deliveries.ts';
import type { NotifierMetrics } from './metrics.ts';
import type { AttemptOutcome, EndpointAnswer, SendWebhook } from './webhook-client.ts';

/** What sends webhooks stands on. */
export type Notifier = {
  deliveries: Deliveries;
  partners: Partners;
  send: SendWebhook;
  retry: RetryLimits;
  metrics: NotifierMetrics;
  logger: Logger;
  crashPoints: CrashPoints;
};

/** When to try again, and from when on not to; milliseconds. */
export type RetryLimits = { firstMs: number; maxMs: number; giveUpAfterMs: number };

/** How much is sent at once, and for how long a delivery is leased. */
export type SendLimits = {
  owner: string;
  /** Longer than the longest attempt with its look-ups and its record. */
  leaseMs: number;
  inFlightMax: number;
};

/**
 * Sends what is due, many at once: what was just made and leased with that, from memory, and by
 * passes what waits for room or its next attempt. Both may ask for the same free slots at a time;
 * the limits of partners and hosts are the database's and hold all the same.
 */
export type Sender = WhoSends & {
  /** Leases what is due and there are slots for, and begins to send it. Returns how many. */
  pass: Pass;
  /**
   * Resolves to 1 once an attempt freed its slot while something waited for room, or after `wake`;
   * to 0 when nothing of that happened within `ms`.
   */
  somethingWithin(ms: number): Promise<number>;
  wake(): void;
  /** Resolves when what is under way now has come to its end. */
  settled(): Promise<void>;
  /** Ends the attempts that are not answered yet; each is recorded and will be retried. */
  giveUp(): void;
};

/**
 * A sender of due deliveries. A pass does not wait for the attempts it begins: a slow endpoint
 * keeps its partner's slots busy and nothing else.
 */
export function createSender(notifier: Notifier, limits: SendLimits): Sender {
  const underWay = new Map<LeasedDelivery, Promise<void>>();
  const taking = new Set<Promise<void>>();
  const givingUp = new AbortController();
  let woken = Promise.withResolvers<number>();
  let waitsForRoom = false;

  const begin = (delivery: LeasedDelivery) => {
    const ended = deliverWebhook(notifier, delivery, givingUp.signal).finally(() => {
      underWay.delete(delivery);
      if (waitsForRoom) woken.resolve(1);
    });
    underWay.set(delivery, ended);
  };
  const beginAll = async ({ leased, more }: Lease) => {
    waitsForRoom = more;
    if (leased.length > 0) await notifier.crashPoints.reached('webhook.leased');
    for (const delivery of leased) begin(delivery);
    return leased.length;
  };
  const takeAll = async (readLease: ReadLease) => {
    try {
      await beginAll(await readLease());
    } catch (err) {
      notifier.logger.warn({ err }, 'webhooks leased and not sent, due when their lease ends');
    }
    if (waitsForRoom) woken.resolve(1);
  };
  const request = () => ({
    owner: limits.owner,
    leaseMs: limits.leaseMs,
    deliveriesMax: Math.max(0, limits.inFlightMax - underWay.size),
  });

  return {
    request,
    take(readLease) {
      const taken = takeAll(readLease).finally(() => taking.delete(taken));
      taking.add(taken);
    },
    async pass() {
      if (underWay.size >= limits.inFlightMax) await Promise.race(underWay.values());
      return beginAll(await notifier.deliveries.lease(request()));
    },
    async somethingWithin(ms) {
      const late = setTimeout(() => woken.resolve(0), ms);
      const happened = await woken.promise;
      clearTimeout(late);
      woken = Promise.withResolvers();
      return happened;
    },
    wake: () => woken.resolve(1),
    async settled() {
      await Promise.all(taking);
      await Promise.all(underWay.values());
    },
    giveUp: () => givingUp.abort(),
  };
}

// How long to rest while nothing comes, ever longer, until the next look for what nobody tells of:
// what failed and is due again, and what a sender that died has left.
const rests = { firstMs: 100, maxMs: 2_000 };
// What is due within this time is leased together: a lease costs more than what is in it.
const apartMs = 25;
// Stays below the time a service has for its shutdown, so that what was given up is still recorded.
const shutdownGraceMs = 8_000;

/** Sends for ever. Stopping takes no new deliveries and lets those under way come to their end. */
export function runSender(sender: Sender, logger: Logger): Pick<Loop, 'stop'> {
  let idle = 0;
  const pass = async () => {
    // A partner whose share is full has more to send as soon as one of its attempts ends.
    const done = (await sender.pass()) || (await sender.somethingWithin(backoffMs(idle, rests)));
    idle = done > 0 ? 0 : idle + 1;
    return done;
  };
  const loop = runLoop(pass, { name: 'send webhooks', idleMs: 1, apartMs, logger });
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

/**
 * One attempt at one delivery: look up the endpoint, send, record. After a crash between sending
 * and recording, the webhook is sent again under its webhook-id, by which the receiver knows it. So
 * it is when the database does not answer: the lease ends and the attempt is repeated.
 */
async function deliverWebhook(
  notifier: Notifier,
  delivery: LeasedDelivery,
  signal: AbortSignal,
): Promise<void> {
  try {
    await inSpan(spanOf(delivery), () => sendAndRecord(notifier, delivery, signal));
  } catch (err) {
    const { eventId, partnerId } = delivery;
    notifier.logger.warn(
      { err, eventId, partnerId },
      'webhook attempt not recorded, will be repeated when its lease ends',
    );
  }
}

/** Every attempt is in the trace of the request that began it all, however late it is. */
function spanOf({ eventId, txnId, partnerId, attempt, traceparent }: LeasedDelivery) {
  const attributes = {
    'triplock.txn_id': txnId,
    'triplock.partner_id': partnerId,
    'triplock.event_id': eventId,
    'triplock.attempt': attempt,
  };
  return { name: 'deliver webhook', parent: traceparent ?? undefined, attributes };
}

async function sendAndRecord(
  notifier: Notifier,
  delivery: LeasedDelivery,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  const outcome = await notifier.metrics.attemptSeconds.time(
    () => attempt(notifier, delivery, signal),
    (made) => made.outcome,
    'failed',
  );
  annotateSpan({ 'triplock.outcome': outcome.outcome });
  await notifier.crashPoints.reached('webhook.answered');
  const recorded = await notifier.deliveries.record(delivery, {
    outcome: outcome.outcome,
    ...whatToKeep(outcome),
    tookMs: performance.now() - started,
    nextInMs:
      outcome.outcome === 'not-sent'
        ? outcome.againInMs
        : backoffMs(delivery.failedBefore, notifier.retry),
    giveUpAfterMs: notifier.retry.giveUpAfterMs,
  });
  await notifier.crashPoints.reached('webhook.recorded');
  report(notifier, delivery, { outcome, recorded });
}

// It wants no more webhooks (Standard Webhooks 1.0, "Deliverability and reliability").
const gone = 410;

// A key comes back by hands. Until then each of its deliveries costs a look a minute.
const keyMayBeBackInMs = 60_000;

async function attempt(
  notifier: Notifier,
  { partnerId, eventId, body, host }: LeasedDelivery,
  signal: AbortSignal,
): Promise<AttemptOutcome> {
  // Asked now and not when the event came: a partner that repairs its endpoint gets what waits.
  const endpoint = await notifier.partners.webhookEndpoint(partnerId).catch((error: unknown) => {
    if (error instanceof UnopenedSecretError) return error;
    throw error;
  });
  // Our own fault, so the time for attempts does not run, and no slot of its host is kept.
  if (endpoint instanceof UnopenedSecretError)
    return { outcome: 'not-sent', againInMs: keyMayBeBackInMs, error: endpoint.message };
  // What was made or asked for again before the endpoint was gone; it is parked. One that is open
  // at another host by now is leased again, in the rate of that one.
  if (endpoint === undefined || endpoint.host !== host)
    return { outcome: 'not-sent', againInMs: 0 };
  const outcome = await notifier.send({ endpoint, id: eventId, body, signal });
  await disableIfGone(notifier, { partnerId, version: endpoint.version, outcome });
  return outcome;
}

/** Sends nothing more to a server that wants no more, as of the version that it was asked at. */
export async function disableIfGone(
  { partners, metrics, logger }: Notifier,
  asked: { partnerId: PartnerId; version: string; outcome: AttemptOutcome | EndpointAnswer },
): Promise<void> {
  const { partnerId, version, outcome } = asked;
  if (outcome.outcome !== 'refused' || outcome.status !== gone) return;
  if (!(await partners.disableEndpoint({ partnerId, version }))) return;
  metrics.endpointsGone.inc();
  logger.error({ partnerId }, 'webhook endpoint disabled: its server answered 410 Gone');
}

function whatToKeep(outcome: AttemptOutcome): Pick<AttemptRecord, 'status' | 'error'> {
  switch (outcome.outcome) {
    case 'delivered':
      return { status: outcome.status, error: null };
    case 'refused':
      return { status: outcome.status, error: `answered ${outcome.status}` };
    case 'unanswered':
    case 'unsendable':
      return { status: null, error: outcome.error };
    case 'not-sent':
      return { status: null, error: null };
    default:
      return outcome satisfies never;
  }
}

function report(
  { metrics, logger }: Notifier,
  { eventId, txnId, partnerId, attempt: number }: LeasedDelivery,
  { outcome, recorded }: { outcome: AttemptOutcome; recorded: RecordOutcome },
): void {
  metrics.attempts.count(outcome.outcome);
  const facts = { eventId, txnId, partnerId, attempt: number, ...outcome };
  switch (recorded) {
    case 'delivered':
      if (number === 1) return logger.debug(facts, 'webhook delivered');
      return logger.info(facts, 'webhook delivered, not at the first attempt');
    case 'pending':
      return logger.warn(facts, 'webhook not delivered, will retry');
    case 'parked':
      return logger.info(facts, 'webhook parked: its partner has no open endpoint');
    case 'failed':
      metrics.givenUp.inc();
      return logger.error(facts, 'webhook given up: the partner did not get it');
    case 'overtaken':
      metrics.overtaken.inc();
      return logger.warn(facts, 'webhook attempt outlived its lease: another sender has it');
    default:
      return recorded satisfies never;
  }
}
