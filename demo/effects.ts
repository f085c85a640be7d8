import type { ClaimSeen } from '@triplock/claims';
import { count, formatSpan } from '@triplock/command';
import {
  type Effects,
  type EventRow,
  readEffects,
  readReceipts,
  type Receipt,
} from '@triplock/inspect';
import type { EventType, TransactionKind, TransactionState } from '@triplock/payments';
import { promised, until } from './promises.ts';
import type { Watched } from './services.ts';
import type { System } from './system.ts';

/** Everything that one payment did, as seen from outside by SQL and by the partner. */
export type PaymentSeen = Effects & { receipts: Receipt[] };

/** Looks at a payment as it is now. */
export async function lookAtPayment(system: System, txnId: string): Promise<PaymentSeen> {
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
export async function untilDelivered(system: System, txnId: string): Promise<PaymentSeen> {
  try {
    return await until({
      what: `the webhook of ${txnId}`,
      signal: system.signal,
      check: async () => {
        system.progress(`waiting for the webhook of ${txnId}`);
        const seen = await lookAtPayment(system, txnId);
        const done = seen.events.length > 0 && seen.events.every(isDone);
        // Looked at again, because the layers of one look were read side by side.
        return done && seen.receipts.length > 0 && lookAtPayment(system, txnId);
      },
    });
  } catch (error) {
    system.signal.throwIfAborted();
    const saw = summaryOf(await lookAtPayment(system, txnId));
    promised('an accepted payment reaches every layer', false, { ids: [txnId], saw });
    throw error;
  }
}

/** The same once its row is final, for one that is told of before that too. */
export async function untilFinal(system: System, txnId: string): Promise<PaymentSeen> {
  await until({
    what: `the end of ${txnId}`,
    signal: system.signal,
    check: async () => {
      const [row] = (await lookAtPayment(system, txnId)).ledger;
      return row !== undefined && row.state !== 'pending';
    },
  });
  return untilDelivered(system, txnId);
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
      for (const id of ids) promiseOneEffect(id, await lookAtPayment(system, id));
      return dropped >= copies && dropped;
    },
  });
}

/** The mark of the outbox may come last: a webhook is faster than the dispatcher's next write. */
function isDone({ state, copies, delivery }: EventRow): boolean {
  return state !== 'pending' && copies > 0 && delivery === 'delivered';
}

/** Holds the system to the one promise: the payment took effect once, in every layer. */
export function promiseOneEffect(
  txnId: string,
  seen: PaymentSeen,
  kind: TransactionKind = 'payment',
): void {
  promiseOne({ ...oneEffect, events: [`${kind}.succeeded, published`] }, { txnId, seen });
}

/** Checks that a failed payment, or what follows one, sent one event and moved no money. */
export function promiseOneFailure(
  kind: TransactionKind,
  { txnId, seen }: { txnId: string; seen: PaymentSeen },
): void {
  const events = [`${kind}.failed, published`];
  promiseOne({ ...oneEffect, ledger: ['failed'], entries: 0, events }, { txnId, seen });
}

/** The same of one that was told of more than once, such as a card whose customer has to act. */
export function promiseTold(
  { state, events, entries }: { state: TransactionState; events: EventType[]; entries: 0 | 1 },
  { txnId, seen }: { txnId: string; seen: PaymentSeen },
): void {
  const ofEach = <Value>([value]: readonly Value[]) => events.map(() => value!);
  const wanted = {
    ...oneEffect,
    ledger: [state],
    entries,
    events: events.map((type) => `${type}, published`),
    inboxRows: ofEach(oneEffect.inboxRows),
    alteredCopies: ofEach(oneEffect.alteredCopies),
    deliveries: ofEach(oneEffect.deliveries),
    webhooks: ofEach(oneEffect.webhooks),
  };
  promiseOne(wanted, { txnId, seen });
}

function promiseOne(
  wanted: typeof oneEffect,
  { txnId, seen }: { txnId: string; seen: PaymentSeen },
): void {
  const saw = summaryOf(seen);
  const same = JSON.stringify(saw) === JSON.stringify(wanted);
  promised('a payment takes effect once, in every layer', same, { ids: [txnId], saw });
  const sent = seen.receipts.map(({ id }) => id).sort();
  const told = seen.events.map(({ eventId }) => eventId).sort();
  const equal = sent.join() === told.join();
  promised('the webhook-id is the event id', equal, { ids: [txnId], saw: sent });
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

function summaryOf({
  ledger,
  entries,
  events,
  receipts,
  deadLetters,
}: PaymentSeen): typeof oneEffect {
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

/** What happened at each guard, in one line each. */
export type Guards = { claims: string; ledger: string; inbox: string; webhook: string };

/** What guard 2 has of a payment. */
export function describeLedger({ ledger, entries, events }: PaymentSeen): string {
  const rows = `${count(ledger.length, 'row')} (${ledger.map(({ state }) => state).join(', ')})`;
  return `${rows}, ${count(entries.length, 'entry', 'entries')}, ${count(events.length, 'event')}`;
}

/** What guard 3 made of its event. */
export function describeInbox({ events }: PaymentSeen): string {
  const copies = events.reduce((sum, each) => sum + each.copies, 0);
  const rows = events.reduce((sum, each) => sum + each.inboxRows, 0);
  const deliveries = events.filter(({ delivery }) => delivery !== null).length;
  const kept = `${count(rows, 'inbox row')}, ${count(deliveries, 'delivery', 'deliveries')}`;
  return `${count(copies, 'copy', 'copies')} published, ${kept}`;
}

/** What the partner got. */
export function describeWebhook({ receipts }: PaymentSeen): string {
  const attempts = receipts.reduce((sum, each) => sum + each.attempts, 0);
  const signed = receipts.every(({ verified }) => verified) ? 'verified' : 'NOT verified';
  return `${count(receipts.length, 'webhook')}, signature ${signed}, ${count(attempts, 'attempt')}`;
}

/** What is left of a claim. */
export function describeLifetime(claim: ClaimSeen | undefined): string {
  return claim === undefined ? 'is gone' : `lives ${formatSpan(claim.leftMs)} more`;
}
