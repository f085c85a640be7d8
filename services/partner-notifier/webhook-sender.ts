import { type Partners, UnopenedSecretError } from '@triplock/partners';
import type { EndpointId, PartnerId } from '@triplock/payments';
import {
  annotateSpan,
  backoffMs,
  inSpan,
  openSignal,
  openSlots,
  type CrashPoints,
  type Logger,
  type Pass,
} from '@triplock/runtime';
import type {
  Deliveries,
  LeasedDelivery,
  LeaseRequest,
  ReadLease,
  RecordOutcome,
  WhoSends,
} from './deliveries.ts';
import type { NotifierMetrics } from './metrics.ts';
import {
  answerOf,
  type AttemptOutcome,
  type EndpointAnswer,
  type SendWebhook,
} from './webhook-client.ts';

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
 * passes what waits for room or its next attempt. Either reserves the free slots before it leases,
 * so there is never more under way than `inFlightMax`; the limits of partners and hosts are the
 * database's.
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

const notSent = 'webhooks leased and not sent, due when their lease ends';

/**
 * A sender of due deliveries. A pass does not wait for the attempts it begins: a slow endpoint
 * keeps its partner's slots busy and nothing else.
 */
export function createSender(notifier: Notifier, limits: SendLimits): Sender {
  const room = openRoom(limits);
  const underWay = new Set<Promise<unknown>>();
  const givingUp = new AbortController();

  const follow = (work: Promise<unknown>) => {
    const ended: Promise<unknown> = work.finally(() => underWay.delete(ended));
    underWay.add(ended);
  };
  const begin = (delivery: LeasedDelivery) => {
    const ended = () => {
      room.release();
      room.tellWhoWaits();
    };
    follow(deliverWebhook(notifier, delivery, givingUp.signal).finally(ended));
  };
  /** Each delivery has its slot until its attempt ends; what is left over is free at once. */
  const beginAll = async ({ deliveriesMax }: LeaseRequest, readLease: ReadLease) => {
    let begun = 0;
    try {
      const { leased, leftOf } = await readLease();
      room.noteMore(leftOf.length > 0);
      if (leased.length > 0) await notifier.crashPoints.reached('webhook.leased');
      for (const delivery of leased) begin(delivery);
      begun = leased.length;
    } finally {
      room.release(deliveriesMax - begun);
    }
    return begun;
  };

  return {
    reserve() {
      const request = room.take();
      return {
        request,
        take(readLease) {
          const begun = beginAll(request, readLease);
          const warn = (err: unknown) => notifier.logger.warn({ err }, notSent);
          follow(begun.catch(warn).then(room.tellWhoWaits));
        },
        giveBack() {
          room.release(request.deliveriesMax);
          room.tellWhoWaits();
        },
      };
    },
    async pass() {
      if (underWay.size >= limits.inFlightMax) await Promise.race(underWay);
      const request = room.take();
      if (request.deliveriesMax === 0) return 0;
      return beginAll(request, () => notifier.deliveries.lease(request));
    },
    somethingWithin: room.within,
    wake: room.wake,
    async settled() {
      // What was being taken has begun by then.
      await Promise.all(underWay);
      await Promise.all(underWay);
    },
    giveUp: () => givingUp.abort(),
  };
}

/** The slots that are free, and a wake for whoever found none, or too few. */
function openRoom({ owner, leaseMs, inFlightMax }: SendLimits) {
  const slots = openSlots(inFlightMax);
  const signal = openSignal();
  let [isTooSmall, isWaitedFor] = [false, false];
  return {
    ...signal,
    /** Takes all. Where there is none, whatever is due then gets the next. */
    take(): LeaseRequest {
      const deliveriesMax = slots.takeFree(inFlightMax);
      isWaitedFor ||= deliveriesMax === 0;
      return { owner, leaseMs, deliveriesMax };
    },
    release: slots.release,
    /** Whether more was due at the last lease than there was room for. */
    noteMore(more: boolean) {
      isTooSmall = more;
    },
    tellWhoWaits() {
      if (isTooSmall || isWaitedFor) signal.wake();
      isWaitedFor = false;
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
  const { eventId, txnId, partnerId, endpointId, attempt: number } = delivery;
  const attributes = {
    'triplock.txn_id': txnId,
    'triplock.partner_id': partnerId,
    'triplock.event_id': eventId,
    'triplock.attempt': number,
  };
  // Every attempt is in the trace of the request that began it all, however late it is.
  const span = { name: 'deliver webhook', parent: delivery.traceparent ?? undefined, attributes };
  try {
    await inSpan(span, () => sendAndRecord(notifier, delivery, signal));
  } catch (err) {
    const notRecorded = 'webhook attempt not recorded, will be repeated when its lease ends';
    notifier.logger.warn({ err, eventId, partnerId, endpointId }, notRecorded);
  }
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
    ...answerOf(outcome),
    tookMs: performance.now() - started,
    nextInMs:
      outcome.outcome === 'not-sent'
        ? outcome.againInMs
        : backoffMs(delivery.failedBefore, notifier.retry),
    giveUpAfterMs: notifier.retry.giveUpAfterMs,
    ...('retryAfterMs' in outcome && { retryAfterMs: outcome.retryAfterMs }),
  });
  await notifier.crashPoints.reached('webhook.recorded');
  reportAttempt(notifier, delivery, { outcome, recorded });
}

// It wants no more webhooks (Standard Webhooks 1.0, "Deliverability and reliability").
const gone = 410;

// A key comes back by hands. Until then each of its deliveries costs a look a minute.
const keyMayBeBackInMs = 60_000;

async function attempt(
  notifier: Notifier,
  { partnerId, endpointId, eventId, body, host }: LeasedDelivery,
  signal: AbortSignal,
): Promise<AttemptOutcome> {
  // Asked now and not when the event came: a partner that repairs its endpoint gets what waits.
  const endpoint = await notifier.partners.webhookEndpoint(endpointId).catch((error: unknown) => {
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
  const asked = { id: endpointId, partnerId, version: endpoint.version };
  await disableIfGone(notifier, asked, outcome);
  return outcome;
}

/** Sends nothing more to a server that wants no more, as of the version that it was asked at. */
export async function disableIfGone(
  { partners, metrics, logger }: Notifier,
  { id, partnerId, version }: { id: EndpointId; partnerId: PartnerId; version: string },
  outcome: AttemptOutcome | EndpointAnswer,
): Promise<void> {
  if (outcome.outcome !== 'refused' || outcome.status !== gone) return;
  if (!(await partners.disableEndpoint({ id, version }))) return;
  metrics.endpointsGone.inc();
  const line = { partnerId, endpointId: id };
  logger.error(line, 'webhook endpoint disabled: its server answered 410 Gone');
}

/** Counts and logs what an attempt came to. */
function reportAttempt(
  { metrics, logger }: Notifier,
  { eventId, txnId, partnerId, endpointId, attempt: number }: LeasedDelivery,
  { outcome, recorded }: { outcome: AttemptOutcome; recorded: RecordOutcome },
): void {
  metrics.attempts.count(outcome.outcome);
  const facts = { eventId, txnId, partnerId, endpointId, attempt: number, ...outcome };
  switch (recorded) {
    case 'delivered':
      if (number === 1) return logger.debug(facts, 'webhook delivered');
      return logger.info(facts, 'webhook delivered, not at the first attempt');
    case 'pending':
      return logger.warn(facts, 'webhook not delivered, will retry');
    case 'parked':
      return logger.info(facts, 'webhook parked: its endpoint is not open');
    case 'disabled':
      metrics.endpointsFailed.inc();
      return logger.error(facts, 'webhook endpoint disabled: it has taken nothing for too long');
    case 'canceled':
      return logger.info(facts, 'webhook canceled: its endpoint was deleted');
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
