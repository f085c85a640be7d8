import {
  deriveDisputeId,
  isFollowUp,
  traceparentOf,
  type Dispute,
  type DisputeId,
  type Money,
  type PartnerId,
  type Payment,
  type FollowUp,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import {
  databaseErrorKind,
  loadStatements,
  type Database,
  type Queryable,
} from '@triplock/postgres';
import { inBatches, withDeadline } from '@triplock/runtime';
import {
  begunBy,
  pageBytesMax,
  wishOf,
  type AuthorizeOutcome,
  type AuthorizeRequest,
  type AwaitCustomerOutcome,
  type AwaitCustomerRequest,
  type DisputeListOutcome,
  type DisputeListRequest,
  type DisputeOutcome,
  type DisputeReport,
  type ListOutcome,
  type ListRequest,
  type StoreIntentOutcome,
  type StoreIntentRequest,
} from '../ledger.ts';
import {
  authorizedEvent,
  disputedEvent,
  refuseBadTexts,
  requiresActionEvent,
  type RowState,
} from '../outcomes.ts';
import { columnLists } from '../columns.ts';
import { inSlices, type PostedPortion } from '../posted-within.ts';
import type { RefundListOutcome, RefundListRequest } from '../follow-ups.ts';
import {
  disputeOf,
  isUnreadable,
  paymentOf,
  followUpOf,
  type DisputeRow,
  type PaymentRow,
  type FollowUpRow,
} from '../rows.ts';
import type { DueTransaction, ProviderEvent, TakeDue, WakeDue } from '../unfinished.ts';
import { appendEvent, appendSettlement, columnsOf } from './settlement.ts';

const sql = loadStatements(
  import.meta.url,
  'transactions.sql',
  [
    'findPayment',
    'kindsOf',
    'pendingIds',
    'settledIds',
    'paymentPosition',
    'listPayments',
    'pendingSums',
    'storeIntents',
    'awaitCustomer',
    'authorize',
    'customerTime',
    'noteDispute',
    'endDispute',
    'findDispute',
    'listDisputes',
    'disputeState',
    'isEmpty',
    'findFollowUp',
    'refundPosition',
    'listRefunds',
    'classify',
    'takeDue',
    'lookAtNews',
    'wakeDue',
  ],
  columnLists,
);
// Takes some of the provider's events out that came long ago; $1 rows at most.
const reapSql = 'SELECT ledger.reap_provider_events($1::integer)';

/** The payment as the ledger holds it, or `undefined` when the id is not known. */
export async function findPayment(database: Queryable, txnId: TxnId): Promise<Payment | undefined> {
  const [row] = await database.query<PaymentRow>(sql.findPayment, [txnId]);
  return row && paymentOf(row);
}

/** Of some ids those that the ledger knows, with their kinds. */
export async function kindsOf(
  database: Queryable,
  ids: readonly TxnId[],
): Promise<ReadonlyMap<TxnId, TransactionKind>> {
  type Known = { txn_id: TxnId; kind: TransactionKind };
  const rows = await database.query<Known>(sql.kindsOf, [ids]);
  return new Map(rows.map(({ txn_id: txnId, kind }) => [txnId, kind]));
}

/**
 * What was posted lately, by `Ledger.postedWithin`'s contract: what is pending, and then what was
 * settled in that time. No index knows when a row was posted, and none is needed: since then it was
 * settled, or it still is pending. In this order, what is settled in between is seen by one of
 * them.
 */
export async function* postedWithin(
  database: Queryable,
  ms: number,
): AsyncGenerator<PostedPortion> {
  type Row = { txn_id: TxnId };
  const idsOf = (rows: readonly Row[]) => rows.map(({ txn_id: txnId }) => txnId);
  const [time] = await database.query<{ now: Date }>('SELECT now()');
  yield { ids: idsOf(await database.query<Row>(sql.pendingIds)), part: 0 };
  yield* inSlices({ now: time!.now, ms }, async ({ from, before, limit }) =>
    idsOf(await database.query<Row>(sql.settledIds, [from, before, limit])),
  );
}

/** The refund as it is now, also inside a transaction that is about to change it. */
export async function findFollowUp(
  database: Queryable,
  txnId: TxnId,
): Promise<FollowUp | undefined> {
  const [row] = await database.query<FollowUpRow>(sql.findFollowUp, [txnId]);
  return row && followUpOf(row);
}

/** What a partner's payments come to that are not final, by currency. */
export function pendingSums(database: Queryable, partnerId: PartnerId): Promise<Money[]> {
  return database.query<Money>(sql.pendingSums, [partnerId]);
}

/** The page after a payment, or the first one. */
export async function listPayments(
  database: Database,
  {
    partnerId,
    limit,
    bytesMax = pageBytesMax,
    after,
    status,
    reference,
    since,
    until,
  }: ListRequest,
): Promise<ListOutcome> {
  const { state, isAuthorized } = wishOf(status);
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    [position] = await database.query<{ created_at: Date }>(sql.paymentPosition, [
      partnerId,
      after,
    ]);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  const rows = await database.query<PaymentRow & { more: boolean }>(sql.listPayments, [
    ...[partnerId, limit, position?.created_at, after],
    ...[state, reference, isAuthorized, bytesMax, since, until],
  ]);
  return { outcome: 'page', payments: rows.map(paymentOf), hasMore: rows.at(-1)?.more ?? false };
}

/** The page after a refund, or the first one. */
export async function listRefunds(
  database: Database,
  { paymentId, partnerId, limit, bytesMax = pageBytesMax, after }: RefundListRequest,
): Promise<RefundListOutcome> {
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    const last = [paymentId, partnerId, after];
    [position] = await database.query<{ created_at: Date }>(sql.refundPosition, last);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  const asked = [paymentId, partnerId, limit, position?.created_at, after, bytesMax];
  const rows = await database.query<FollowUpRow & { more: boolean }>(sql.listRefunds, asked);
  return { outcome: 'page', refunds: rows.map(followUpOf), hasMore: rows.at(-1)?.more ?? false };
}

/** Whether nothing was ever posted. */
export async function isEmpty(database: Queryable): Promise<boolean> {
  const [row] = await database.query<{ empty: boolean }>(sql.isEmpty);
  return row!.empty;
}

/**
 * What the ledger has under ids that could not be inserted, in a statement of its own after the
 * insert. An id whose writer rolled back gives no row.
 */
export async function readStates(
  database: Queryable,
  ids: readonly TxnId[],
): Promise<(RowState & { txn_id: TxnId })[]> {
  return ids.length === 0 ? [] : database.query(sql.classify, [ids]);
}

/** Stores intents by `Ledger.storeIntent`'s contract, in the transaction that it is given. */
export async function storeIntents(
  tx: Queryable,
  requests: readonly StoreIntentRequest[],
): Promise<(StoreIntentOutcome | undefined)[]> {
  const rows = requests.map((each) => [each.txnId, each.version, each.provider, each.intentId]);
  type Stored = { txn_id: TxnId; version: number };
  const stored = await tx.query<Stored>(sql.storeIntents, columnsOf(rows));
  const versions = new Map(stored.map((row) => [row.txn_id, row.version]));
  return requests.map(({ txnId }) => {
    const version = versions.get(txnId);
    return version === undefined ? undefined : { outcome: 'stored', version };
  });
}

/**
 * Notes the time of a customer by `Ledger.awaitCustomer`'s contract: time, event and what to do, or
 * nothing.
 */
export async function awaitCustomer(
  database: Database,
  { txnId, version, withinMs, action, traceparent }: AwaitCustomerRequest,
): Promise<AwaitCustomerOutcome> {
  const [known] = await database.query<{ over: boolean }>(sql.customerTime, [txnId, version]);
  if (known !== undefined) return { outcome: known.over ? 'over' : 'waits', version };
  const parameters = [txnId, version, withinMs, action?.sealed ?? null];
  return database.transaction(async (tx) => {
    const [row] = await tx.query<PaymentRow>(sql.awaitCustomer, parameters);
    if (row === undefined) return { outcome: 'stale' };
    const asked = { type: action?.type, withinMs, sequence: row.events };
    await appendEvent(tx, requiresActionEvent(paymentOf(row), asked), traceparent);
    return { outcome: 'waits', version: row.version };
  });
}

type DisputedRow = PaymentRow & { disputed_at: Date; traceparent: string | null };

/**
 * Notes a dispute by `Ledger.noteDispute`'s contract: note, event and end, or nothing. A crash
 * before the commit leaves nothing, and one after it a report that comes again and finds it noted.
 */
export async function noteDispute(
  database: Database,
  report: DisputeReport,
): Promise<DisputeOutcome> {
  const { provider, intentId, disputeId, amount, currency, reason, evidenceDueBy, end } = report;
  refuseBadTexts([intentId, disputeId, reason]);
  const asked = [provider, intentId, disputeId];
  const noted = await database.transaction(async (tx) => {
    const more = [amount, reason, currency, deriveDisputeId(report), evidenceDueBy];
    const [row] = await tx.query<DisputedRow>(sql.noteDispute, [...asked, ...more]);
    if (row === undefined) return undefined;
    const payment = paymentOf(row);
    const when = { disputedAt: row.disputed_at, sequence: row.events };
    const traceparent = traceparentOf(row.traceparent ?? undefined, payment.txnId);
    await appendEvent(tx, disputedEvent(payment, report, when), traceparent);
    if (end !== undefined) await tx.query(sql.endDispute, [...asked, end]);
    return payment.txnId;
  });
  if (noted !== undefined) return { outcome: 'disputed', txnId: noted };
  type Found = { txn_id: TxnId; state: Payment['state']; currency: string; noted: boolean };
  const [found] = await database.query<Found>(sql.disputeState, asked);
  if (found === undefined) return { outcome: 'unknown' };
  const { txn_id: txnId, state } = found;
  const isOther = state !== 'pending' && found.currency !== currency;
  if (isOther) return { outcome: 'other-currency', txnId };
  // Not noted: pending, or final only since the statement above looked. The report comes again.
  if (!found.noted) return { outcome: 'not-final', txnId };
  const ended = end && (await database.query(sql.endDispute, [...asked, end]));
  return { outcome: ended?.length ? 'ended' : 'already-noted', txnId };
}

/** A partner's dispute, by `Ledger.findDispute`'s contract. */
export async function findDispute(
  database: Queryable,
  { id, partnerId }: { id: DisputeId; partnerId: PartnerId },
): Promise<Dispute | undefined> {
  const [row] = await database.query<DisputeRow>(sql.findDispute, [id, partnerId]);
  return row && disputeOf(row);
}

/** A page of a partner's disputes, by `Ledger.listDisputes`' contract. */
export async function listDisputes(
  database: Queryable,
  { partnerId, limit, after, paymentId, status }: DisputeListRequest,
): Promise<DisputeListOutcome> {
  const position = after && (await findDispute(database, { id: after, partnerId }));
  if (after !== undefined && position === undefined) return { outcome: 'unknown-cursor' };
  const behind = [position?.createdAt, after, paymentId, status];
  const rows = await database.query<DisputeRow & { more: boolean }>(sql.listDisputes, [
    ...[partnerId, limit],
    ...behind,
  ]);
  return { outcome: 'page', disputes: rows.map(disputeOf), hasMore: rows.at(-1)?.more ?? false };
}

/**
 * Notes that money is held, by `Ledger.authorize`'s contract: time and event, and what waits for it
 * is due, or nothing.
 */
export async function authorize(
  database: Database,
  { txnId, version, traceparent, hold, heldSince, heldUntil }: AuthorizeRequest,
): Promise<AuthorizeOutcome> {
  return database.transaction(async (tx) => {
    const parameters = [txnId, version, hold === 'stands', begunBy({ heldSince }), heldUntil];
    const [row] = await tx.query<PaymentRow>(sql.authorize, parameters);
    if (row === undefined) {
      const [time] = await tx.query<{ over: boolean }>(sql.customerTime, [txnId, version]);
      return { outcome: time?.over ? 'over' : 'stale' };
    }
    const event = authorizedEvent(paymentOf(row), row.events);
    await appendSettlement(tx, { event, traceparent, entry: undefined });
    return { outcome: 'stored', version: row.version };
  });
}

type DueRow = { txn_id: TxnId; kind: TransactionKind; version: number; traceparent: string | null };

/** Takes due transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. */
export function takeDueFrom(database: Database): TakeDue {
  return async ({ limit, leaseMs, rows: wanted = 'all' }) => {
    const [which, provider] = typeof wanted === 'string' ? [wanted] : ['at', wanted.provider];
    const parameters = [limit, leaseMs, which, provider];
    const rows = await database.query<DueRow>(sql.takeDue, parameters);
    const due = await Promise.all(
      rows.map((row) =>
        read(database, row).catch((error: unknown): DueTransaction => {
          if (!isUnreadable(error)) throw error;
          return { kind: 'unreadable', txnId: row.txn_id, error };
        }),
      ),
    );
    return due.filter((each) => each !== undefined);
  };
}

/** As it was taken: a worker that changed it since has it now, or has finished it. */
async function read(database: Database, row: DueRow): Promise<DueTransaction | undefined> {
  const { txn_id: txnId, kind } = row;
  const traceparent = traceparentOf(row.traceparent ?? undefined, txnId);
  if (isFollowUp(kind)) {
    const followUp = await findFollowUp(database, txnId);
    if (followUp?.version !== row.version) return undefined;
    return { kind: 'follow-up', followUp, traceparent };
  }
  const payment = await findPayment(database, txnId);
  return payment?.version === row.version ? { kind: 'payment', payment, traceparent } : undefined;
}

/** After so many events old ones leave, more than came, so that they become fewer. */
const eventsPerReap = 16;

/** No report is in a hurry; but a look that takes a second has met a connection that is gone. */
const newsLimits = { apartMs: 50, itemsMax: 200, batchesMax: 2 };

/** What a look tells of one event. */
type Seen = { waits: boolean; paid_after_end: boolean };
type WakeRow = { waits: boolean; remembered: boolean; woken: TxnId[] };

/**
 * Wakes transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. What an event is
 * about is told by a look that it shares with others; about nothing that is pending, nothing is
 * written. Where that look is not answered, or in time, each event is asked for alone; one that
 * PostgreSQL calls a mistake of ours would be so each time, and fails them all. What is remembered
 * takes old events out with it, so that nobody else has to; a crash before that leaves them to what
 * comes next.
 */
export function wakeDueIn(database: Database): WakeDue {
  const look = (events: readonly ProviderEvent[]) =>
    database.query<Seen>(sql.lookAtNews, [
      events.map(({ provider }) => provider),
      events.map(({ intentId }) => intentId),
      events.map(({ paidFor }) => paidFor ?? null),
    ]);
  const lookTogether = inBatches(async (events: readonly ProviderEvent[]) => {
    const seen = withDeadline(look(events), { ms: 1_000, what: 'the ledger' });
    return seen.catch((error: unknown) => {
      if (databaseErrorKind(error) === 'bug') throw error;
      return events.map(() => undefined);
    });
  }, newsLimits);
  let sinceReap = 0;
  const wake = async ({ provider, eventId, type, intentId, paidFor }: ProviderEvent) => {
    const told = [provider, eventId, type, intentId, paidFor ?? null];
    const [row] = await database.query<WakeRow>(sql.wakeDue, told);
    const { waits, remembered, woken } = row!;
    if (!waits) return nothingWaits;
    if (!remembered) return { outcome: 'duplicate' } as const;
    sinceReap = (sinceReap + 1) % eventsPerReap;
    if (sinceReap === 0) await database.query(reapSql, [2 * eventsPerReap]);
    return { outcome: 'woken', txnIds: woken } as const;
  };
  return async (event) => {
    const seen = await lookTogether(event);
    const outcome = seen?.waits === false ? nothingWaits : await wake(event);
    if (event.paidFor === undefined) return outcome;
    const { paid_after_end: paidAfterEnd } = seen ?? (await look([event]))[0]!;
    return paidAfterEnd ? { ...outcome, paidAfterEnd } : outcome;
  };
}

const nothingWaits = { outcome: 'nothing-waits' } as const;
