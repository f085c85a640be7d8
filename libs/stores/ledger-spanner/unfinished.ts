import {
  authorizedEvent,
  begunBy,
  type AuthorizeOutcome,
  type AuthorizeRequest,
  type AwaitCustomerOutcome,
  type AwaitCustomerRequest,
  type DueRows,
  type DueTransaction,
  type ProviderEvent,
  refuseBadTexts,
  requiresActionEvent,
  type StoreIntentOutcome,
  type StoreIntentRequest,
  type TakeDue,
  UnreadableRowError,
  type WakeDue,
  type WakeOutcome,
} from '@triplock/ledger';
import { deriveId, traceparentOf, type TxnId } from '@triplock/payments';
import {
  insertEvent,
  paymentFrom,
  paymentOfFollowUp,
  readTransaction,
  followUpFrom,
  type TransactionRow,
  updateTransaction,
  updateWaiting,
} from './rows.ts';
import { blamingInput, isPendingAt, wakeFollowUps } from './settlement.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';
import { commitTimestamp } from './spanner/values.ts';

/** The index of what is due, which holds the wanted rows only, and what stands before the time. */
type DueIndex = { index: string; shard: string; provider?: string };

function indexOf(wanted: DueRows): DueIndex {
  if (wanted === 'all') return { index: 'transactions_due', shard: 'due_shard' };
  if (wanted === 'settled-here') return { index: 'transactions_due_here', shard: 'due_here_shard' };
  return { index: 'transactions_due_at', shard: 'due_shard', provider: wanted.provider };
}

const dueSql = ({ index, shard, provider }: DueIndex) => `
  SELECT due.txn_id
  FROM UNNEST(GENERATE_ARRAY(0, 15)) AS wanted_shard,
    UNNEST(ARRAY(
      SELECT AS STRUCT txn_id, due_at FROM transactions@{
        FORCE_INDEX=${index}, spanner_emulator.disable_query_null_filtered_index_check=true
      }
      WHERE ${shard} = wanted_shard AND due_at <= CURRENT_TIMESTAMP()
        ${provider === undefined ? '' : 'AND provider = @provider'}
      ORDER BY due_at LIMIT @limit
    )) AS due
  ORDER BY due.due_at LIMIT @limit`;

const stillDueSql = `
  SELECT txn_id, version, created_at, authorized_at, hold_expires_at, CURRENT_TIMESTAMP() AS now
  FROM transactions
  WHERE txn_id IN UNNEST(@ids) AND state = 'pending' AND due_at <= CURRENT_TIMESTAMP()`;

type Due = Pick<TransactionRow, 'version' | 'created_at' | 'authorized_at' | 'hold_expires_at'> & {
  txn_id: TxnId;
  now: Date;
};

/**
 * Takes due transactions of the ledger in Spanner. They are looked for without locks and then taken
 * by their ids: locks on what is next would hold up workers that post.
 */
export function takeDueFromSpanner(database: SpannerDatabase): TakeDue {
  return async ({ limit, leaseMs, rows: wanted = 'all' }) => {
    const ids = await findDue(database, limit, wanted);
    if (ids.length === 0) return [];
    const taken = await database.transaction(async (tx) => {
      const rows = await tx.query<Due>(stillDueSql, { ids });
      for (const row of rows) {
        const { txn_id, version } = row;
        tx.write(
          updateTransaction({ txn_id, version: version + 1n, due_at: dueAgain(row, leaseMs) }),
        );
      }
      return rows.map(({ txn_id, version }) => ({ txnId: txn_id, version: version + 1n }));
    });
    const due = await Promise.all(
      taken.map((each) =>
        read(database, each).catch((error: unknown): DueTransaction => {
          if (!(error instanceof UnreadableRowError)) throw error;
          return { kind: 'unreadable', txnId: each.txnId, error };
        }),
      ),
    );
    return due.filter((each) => each !== undefined);
  };
}

const [quarterHourMs, hourMs, dayMs] = [900_000, 3_600_000, 86_400_000];

/** When a row that is taken is due again, by `TakeDue`'s contract. */
function dueAgain(row: Due, leaseMs: number): Date {
  const { created_at, authorized_at, hold_expires_at: expires } = row;
  const now = +row.now;
  if (authorized_at === null) {
    return new Date(now + Math.max(leaseMs, Math.min(60_000, (now - +created_at) / 4)));
  }
  const isOver = expires !== null && +expires <= now;
  const lastedMs = now - +(isOver ? expires : authorized_at);
  const jitter = 0.9 + 0.2 * Math.random();
  const usual = now + jitter * Math.max(hourMs, Math.min(dayMs, lastedMs));
  const soon = (1 + Math.random()) * quarterHourMs;
  return new Date(expires === null || isOver ? usual : Math.min(usual, +expires + soon));
}

/** So many are looked at before a statement is asked for the longest due of more. */
const lookedAtMax = 256;

/** Which are due, the longest first; by this process's clock, as long as they are few. */
async function findDue(
  database: SpannerDatabase,
  limit: number,
  wanted: DueRows,
): Promise<TxnId[]> {
  const upTo = new Date();
  const where = indexOf(wanted);
  const { index, provider } = where;
  const prefix = (shard: number) => (provider === undefined ? [shard] : [shard, provider]);
  const few = await database.read<{ txn_id: TxnId; due_at: Date }>({
    table: 'transactions',
    index,
    columns: ['txn_id', 'due_at'],
    keys: { ranges: Array.from({ length: 16 }, (_, shard) => ({ prefix: prefix(shard), upTo })) },
    limit: lookedAtMax,
  });
  const due =
    few.length < lookedAtMax
      ? few.sort((one, other) => +one.due_at - +other.due_at).slice(0, limit)
      : await database.query<{ txn_id: TxnId }>(dueSql(where), {
          limit,
          ...(provider !== undefined && { provider }),
        });
  return due.map(({ txn_id }) => txn_id);
}

/** As it was taken: a worker that changed it since has it now, or has finished it. */
async function read(
  database: SpannerDatabase,
  { txnId, version }: { txnId: TxnId; version: bigint },
): Promise<DueTransaction | undefined> {
  const row = await readTransaction(database, txnId);
  if (row?.version !== version) return undefined;
  const traceparent = traceparentOf(row.traceparent ?? undefined, txnId);
  if (row.payment_id === null) return { kind: 'payment', payment: paymentFrom(row), traceparent };
  const payment = await readTransaction(database, row.payment_id as TxnId);
  const followUp = followUpFrom(row, paymentOfFollowUp(row, payment));
  return { kind: 'follow-up', followUp, traceparent };
}

/** The payment that names an intent. */
export const paymentSql = `
  SELECT txn_id
  FROM transactions@{FORCE_INDEX=transactions_by_intent, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE intent_hash = FARM_FINGERPRINT(@intentId)
    AND provider_intent_id = @intentId AND provider = @provider`;

/**
 * Wakes transactions of the ledger in Spanner, by `WakeDue`'s contract. After a commit without an
 * answer the event is reported as a duplicate, which it then is.
 */
export function wakeDueInSpanner(database: SpannerDatabase): WakeDue {
  return (event) =>
    database.transaction(async (tx) => {
      const about = await rowsAbout(tx, event);
      const outcome = await wake(tx, event, about.filter(isWaiting));
      const isPaidAfterEnd = await paidAfterEnd(tx, event, about);
      return isPaidAfterEnd ? { ...outcome, paidAfterEnd: true } : outcome;
    });
}

/** Remembers an event and lets those be due that it is about. */
async function wake(
  tx: SpannerTransaction,
  { provider, eventId, type, intentId }: ProviderEvent,
  waiting: readonly Seen[],
): Promise<WakeOutcome> {
  if (waiting.length === 0) return { outcome: 'nothing-waits' };
  const id = deriveId('provider-event', provider, eventId);
  const known = { table: 'provider_events', columns: ['id'], keys: [[id]] };
  if ((await tx.read(known)).length > 0) return { outcome: 'duplicate' };
  const event = { provider, event_id: eventId, event_type: type, intent_id: intentId };
  const row = { id, ...event, seen_at: commitTimestamp };
  tx.write({ kind: 'insert', table: 'provider_events', row });
  // By this process's clock. One that is wrong wakes them earlier or later.
  const now = Date.now();
  for (const { txn_id, due_at } of waiting) {
    const soon = new Date(Math.min(+due_at, now));
    tx.write(updateWaiting({ txn_id, due_at: soon }));
  }
  return { outcome: 'woken', txnIds: waiting.map(({ txn_id }) => txn_id) };
}

type Seen = { txn_id: TxnId; state: string; amount: bigint | null; due_at: Date };

/** The payment of an intent and what follows it. */
async function rowsAbout(tx: SpannerTransaction, event: ProviderEvent): Promise<Seen[]> {
  const { intentId, provider } = event;
  const [named] = await tx.query<{ txn_id: TxnId }>(paymentSql, { intentId, provider });
  const payment = named ?? (await withoutIntent(tx, event));
  if (payment === undefined) return [];
  const refunds = await tx.read<{ txn_id: TxnId }>({
    table: 'transactions',
    index: 'refunds_of_a_payment',
    columns: ['txn_id'],
    keys: { ranges: [{ prefix: [payment.txn_id] }] },
  });
  return tx.read<Seen>({
    table: 'transactions',
    columns: ['txn_id', 'state', 'amount', 'due_at'],
    keys: [payment, ...refunds].map(({ txn_id }) => [txn_id]),
  });
}

/** What one call charged has no intent on its row while nobody has its answer. */
async function withoutIntent(
  tx: SpannerTransaction,
  { paidFor, provider }: ProviderEvent,
): Promise<{ txn_id: TxnId } | undefined> {
  if (paidFor === undefined) return undefined;
  const row = await readTransaction(tx, paidFor);
  const isIt = row?.kind === 'payment' && row.provider === provider;
  return isIt && row.provider_intent_id === null ? { txn_id: paidFor } : undefined;
}

/** A refund counts only once it is reserved: before, nobody has asked the provider for it. */
function isWaiting({ state, amount }: Seen): boolean {
  return state === 'pending' && amount !== null;
}

/** Whether the payment that an event says was paid had ended without this money. */
async function paidAfterEnd(
  tx: SpannerTransaction,
  { paidFor }: ProviderEvent,
  about: readonly Seen[],
): Promise<boolean> {
  if (paidFor === undefined) return false;
  const ofIntent = about.find(({ txn_id }) => txn_id === paidFor);
  if (ofIntent !== undefined) return !['pending', 'succeeded', 'captured'].includes(ofIntent.state);
  // The intent is none that the payment was paid by.
  const [row] = await tx.read<{ state: string; payment_id: string | null }>({
    table: 'transactions',
    columns: ['state', 'payment_id'],
    keys: [[paidFor]],
  });
  return row !== undefined && row.payment_id === null && row.state !== 'pending';
}

/** Stores an intent by `Ledger.storeIntent`'s contract. */
export function storeIntent(
  database: SpannerDatabase,
  { txnId, version, provider, intentId }: StoreIntentRequest,
): Promise<StoreIntentOutcome> {
  return blamingInput(async () => {
    refuseBadTexts([intentId]);
    return database.transaction(async (tx) => {
      const row = await readTransaction(tx, txnId);
      if (row?.kind !== 'payment') return { outcome: 'stale' };
      const stored = { outcome: 'stored', version: version + 1 } as const;
      // After a commit without an answer: the same intent at the next version is this call's own.
      const isOurs = row.provider_intent_id === intentId && isPendingAt(row, version + 1);
      if (tx.mayHaveCommitted && isOurs) return stored;
      const isOpen = isPendingAt(row, version) && row.provider_intent_id === null;
      if (row.provider !== null && row.provider !== provider) return { outcome: 'stale' };
      if (!isOpen) return { outcome: 'stale' };
      const columns = { provider, provider_intent_id: intentId };
      tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, ...columns }));
      return stored;
    });
  });
}

/**
 * Notes the time of a customer by `Ledger.awaitCustomer`'s contract. After a commit without an
 * answer it finds what it noted itself, at the next version.
 */
export function awaitCustomer(
  database: SpannerDatabase,
  { txnId, version, withinMs, action, traceparent }: AwaitCustomerRequest,
): Promise<AwaitCustomerOutcome> {
  return database.transaction(async (tx) => {
    const row = await readTransaction(tx, txnId);
    if (row?.kind !== 'payment' || row.state !== 'pending') return { outcome: 'stale' };
    const [clock] = await tx.query<{ now: Date }>('SELECT CURRENT_TIMESTAMP() AS now');
    const { now } = clock!;
    const expires = row.action_expires_at;
    if (expires === null && isPendingAt(row, version)) {
      const action_expires_at = new Date(+now + withinMs);
      const next_action = action?.sealed ?? null;
      const [events, columns] = [row.events + 1n, { action_expires_at, next_action }];
      tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, events, ...columns }));
      const asked = { type: action?.type, withinMs, sequence: Number(events) };
      const event = requiresActionEvent(paymentFrom({ ...row, ...columns }), asked);
      tx.write(insertEvent(event, traceparent));
      return { outcome: 'waits', version: version + 1 };
    }
    const isOurs = tx.mayHaveCommitted && isPendingAt(row, version + 1);
    if (expires === null || !(isOurs || isPendingAt(row, version))) return { outcome: 'stale' };
    return { outcome: expires <= now ? 'over' : 'waits', version: Number(row.version) };
  });
}

/**
 * Notes that money is held, by `Ledger.authorize`'s contract. After a commit without an answer it
 * finds what it noted itself, at the next version.
 */
export function authorize(
  database: SpannerDatabase,
  { txnId, version, traceparent, hold, heldSince, heldUntil }: AuthorizeRequest,
): Promise<AuthorizeOutcome> {
  return database.transaction(async (tx) => {
    const row = await readTransaction(tx, txnId);
    if (row?.kind !== 'payment') return { outcome: 'stale' };
    const stored = { outcome: 'stored', version: version + 1 } as const;
    const isOurs = row.authorized_at !== null && isPendingAt(row, version + 1);
    if (tx.mayHaveCommitted && isOurs) return stored;
    if (row.authorized_at !== null || !isPendingAt(row, version)) return { outcome: 'stale' };
    const [clock] = await tx.query<{ now: Date }>('SELECT CURRENT_TIMESTAMP() AS now');
    const inTimeBy = Math.min(+clock!.now, +(begunBy({ heldSince }) ?? Infinity));
    const isOver = row.action_expires_at !== null && +row.action_expires_at <= inTimeBy;
    if (hold === 'stands' && isOver) return { outcome: 'over' };
    const events = row.events + 1n;
    const held = { authorized_at: clock!.now, hold_expires_at: heldUntil ?? null };
    const columns = { ...held, next_action: null };
    tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, events, ...columns }));
    const event = authorizedEvent(paymentFrom({ ...row, ...columns }), Number(events));
    tx.write(insertEvent(event, traceparent));
    await wakeFollowUps(tx, txnId);
    return stored;
  });
}
