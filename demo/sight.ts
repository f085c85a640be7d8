import {
  count,
  type Effects,
  type EventRow,
  readEffects,
  readReceipts,
  type Receipt,
} from '@triplock/operator';
import { promised } from './broken-promise.ts';
import type { Watched } from './counters.ts';
import type { System } from './system.ts';
import { until } from './until.ts';

/** Everything that one payment did, as seen from outside by SQL and by the partner. */
export type Sight = Effects & { receipts: Receipt[] };

/** Looks at a payment as it is now. */
export async function lookAt(system: System, txnId: string): Promise<Sight> {
  const [effects, receipts] = await Promise.all([
    readEffects(system.ledger, txnId),
    readReceipts(system.endpoints.catcher, txnId),
  ]);
  return { ...effects, receipts };
}

/**
 * Waits until the payment has gone all the way: every layer is done, and the partner got its
 * webhook.
 *
 * @throws BrokenPromise with what there is of it when that does not come.
 */
export async function untilTold(system: System, txnId: string): Promise<Sight> {
  try {
    return await until({
      what: `the webhook of ${txnId}`,
      signal: system.signal,
      check: async () => {
        system.progress(`waiting for the webhook of ${txnId}`);
        const sight = await lookAt(system, txnId);
        const done = sight.events.length > 0 && sight.events.every(isDone);
        // Looked at again, because the layers of one look were read side by side.
        return done && sight.receipts.length > 0 && lookAt(system, txnId);
      },
    });
  } catch (error) {
    system.signal.throwIfAborted();
    const saw = summaryOf(await lookAt(system, txnId));
    promised('an accepted payment reaches every layer', false, { ids: [txnId], saw });
    throw error;
  }
}

/** Payments whose events come again, and how many copies of them the inbox must drop. */
export type Copies = { ids: readonly string[]; copies: number; duplicates: Watched };

/**
 * Waits until the inbox has dropped the copies, and gives their number. All the while each payment
 * must look as if its event had come once.
 */
export function untilDropped(system: System, { ids, copies, duplicates }: Copies): Promise<number> {
  return until({
    what: `the inbox to drop ${count(copies, 'copy', 'copies')}`,
    signal: system.signal,
    check: async () => {
      system.progress(`waiting for the inbox to meet ${count(copies, 'copy', 'copies')}`);
      const dropped = await duplicates.grown();
      for (const id of ids) promiseOneEffect(id, await lookAt(system, id));
      return dropped >= copies && dropped;
    },
  });
}

/** The mark of the outbox may come last: a webhook is faster than the dispatcher's next write. */
function isDone({ state, copies, delivery }: EventRow): boolean {
  return state !== 'pending' && copies > 0 && delivery === 'delivered';
}

/** Holds the system to the one promise: the payment took effect once, in every layer. */
export function promiseOneEffect(txnId: string, sight: Sight): void {
  promiseOne(oneEffect, { txnId, sight });
}

/** The same of a refund that gave money back. */
export function promiseOneRefund(txnId: string, sight: Sight): void {
  promiseOne({ ...oneEffect, events: ['refund.succeeded, published'] }, { txnId, sight });
}

/** Checks that a failed payment or refund sent one event and moved no money. */
export function promiseOneFailure(
  kind: 'payment' | 'refund',
  { txnId, sight }: { txnId: string; sight: Sight },
): void {
  const events = [`${kind}.failed, published`];
  promiseOne({ ...oneEffect, ledger: ['failed'], entries: 0, events }, { txnId, sight });
}

function promiseOne(
  wanted: typeof oneEffect,
  { txnId, sight }: { txnId: string; sight: Sight },
): void {
  const saw = summaryOf(sight);
  const same = JSON.stringify(saw) === JSON.stringify(wanted);
  promised('a payment takes effect once, in every layer', same, { ids: [txnId], saw });
  const [id, eventId] = [sight.receipts[0]!.id, sight.events[0]!.eventId];
  promised('the webhook-id is the event id', id === eventId, { ids: [txnId], saw: id });
}

const oneEffect = {
  ledger: ['succeeded'],
  entries: 1,
  events: ['payment.succeeded, published'],
  inboxRows: [1],
  alteredCopies: [0],
  deliveries: ['delivered'],
  webhooks: [{ verified: true, effects: 1 }],
  sentUnasked: 0,
  deadLetters: 0,
};

function summaryOf({ ledger, entries, events, receipts, deadLetters }: Sight): typeof oneEffect {
  return {
    ledger: ledger.map(({ state }) => state),
    entries: entries.length,
    events: events.map(({ type, state }) => `${type}, ${state}`),
    inboxRows: events.map(({ inboxRows }) => inboxRows),
    alteredCopies: events.map(({ altered }) => altered),
    deliveries: events.map(({ delivery }) => delivery ?? 'none'),
    webhooks: receipts.map(({ verified, effects }) => ({ verified, effects })),
    // Webhooks that came although no delivery says that they were sent.
    sentUnasked: Math.max(0, attemptsOf(receipts) - attemptsOf(events)),
    deadLetters: deadLetters.length,
  };
}

function attemptsOf(some: readonly { attempts: number }[]): number {
  return some.reduce((sum, { attempts }) => sum + attempts, 0);
}
