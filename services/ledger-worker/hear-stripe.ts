import type { Refunds, WakeDue, WakeOutcome } from '@triplock/ledger';
import { readStripeEvent, type ReadStripeEvent } from '@triplock/provider';
import { withDeadline, type Logger, type Loop } from '@triplock/runtime';
import type { WorkerMetrics } from './metrics.ts';

/** What hearing Stripe stands on. */
export type StripeHearing = {
  wakeDue: WakeDue;
  refunds: Pick<Refunds, 'find'>;
  resolver: Pick<Loop, 'wake'>;
  /** Those that Stripe may sign with; two while one follows the other. */
  secrets: readonly string[];
  mode: 'live' | 'test';
  metrics: Pick<WorkerMetrics, 'providerEvents' | 'refundsUndone'>;
  logger: Logger;
};

/** What a webhook came to. `heard`: it is durable, or of no concern, and must not come again. */
export type Heard = 'heard' | 'forged';

/**
 * Stripe tells of most charges while the worker that confirmed one is about to settle it by its own
 * answer. So long it is given, and then nobody else has to ask.
 */
const graceMs = 300;

/** Clocks of the database are read in milliseconds, and timers fire up to one early. */
const lateMs = 10;

/** Stripe sends again what is not answered in time; this leaves it its own limits. */
const answerWithinMs = 5_000;

/**
 * Hears one webhook of Stripe's: when it is genuine, what it is about is due now, and the resolver
 * looks at the intent itself. Nothing that the webhook says of a state is believed, so copies, any
 * order, and one that is early or late or about nothing of ours do no harm. One that is lost costs
 * time: the row is due by itself later.
 *
 * @throws when the ledger does not answer; then it has to come again.
 */
export async function hearStripe(
  parts: StripeHearing,
  webhook: { body: Buffer; signature: string | undefined },
): Promise<Heard> {
  const read = readStripeEvent({ ...webhook, secrets: parts.secrets, mode: parts.mode });
  const outcome = read.outcome === 'event' ? await wake(parts, read.event) : read.outcome;
  if (read.outcome === 'event') await withinLimits(alarmIfUndone(parts, read.event));
  parts.metrics.providerEvents.count(outcome);
  if (read.outcome === 'forged') parts.logger.debug({ detail: read.detail }, 'a forged webhook');
  return read.outcome === 'forged' ? 'forged' : 'heard';
}

type StripeEvent = Extract<ReadStripeEvent, { outcome: 'event' }>['event'];

async function wake(
  { wakeDue, resolver, logger }: StripeHearing,
  { id: eventId, type, intentId }: StripeEvent,
): Promise<WakeOutcome['outcome']> {
  const event = { provider: 'stripe' as const, eventId, type, intentId };
  const woken = await withinLimits(wakeDue(event, { graceMs }));
  if (woken.outcome === 'woken') {
    logger.debug({ txnIds: woken.txnIds, eventId, type }, 'the provider has news');
    // Whichever worker looks first: this one need not wait for its next look.
    setTimeout(() => resolver.wake(), graceMs + lateMs).unref();
  }
  return woken.outcome;
}

/**
 * A refund that has succeeded stays so in the ledger, and its partner was told. When a bank sends
 * the money back later, a person has to see that the customer gets it. Each telling counts, copies
 * too: that is an alarm; the audit is what names the refund as long as the books differ.
 */
async function alarmIfUndone(
  { refunds, metrics, logger }: StripeHearing,
  { id: eventId, failedRefund }: StripeEvent,
): Promise<void> {
  if (failedRefund === undefined) return;
  const { txnId, refundId } = failedRefund;
  const row = await refunds.find(txnId);
  const booked = row?.provider && 'refundId' in row.provider ? row.provider.refundId : undefined;
  if (row?.state !== 'succeeded' || booked !== refundId) return;
  metrics.refundsUndone.inc();
  logger.error(
    { txnId, refundId, eventId },
    'a refund failed at the provider after it had succeeded',
  );
}

function withinLimits<Value>(asked: Promise<Value>): Promise<Value> {
  return withDeadline(asked, { ms: answerWithinMs, what: 'the ledger' });
}
