import {
  keyConflictEventOf,
  type PaymentEvent,
  refundEventOf,
  refundKeyConflictEventOf,
} from '@triplock/contracts';
import {
  type AwaitCustomerOutcome,
  type AwaitCustomerRequest,
  paymentMovement,
  type Posting,
  refundMovement,
  type RefundPosting,
  refuseBadTexts,
  requiresActionEvent,
  settlementEvent,
  type SettleOutcome,
  type SettleRefundRequest,
  type SettleRequest,
  type StoreIntentOutcome,
  type StoreIntentRequest,
  UnpostableError,
} from '@triplock/ledger';
import type { EventId, Settlement, TxnId } from '@triplock/payments';
import {
  finalColumns,
  insertEntry,
  insertEvent,
  paymentFrom,
  paymentOfRefund,
  readTransaction,
  refundFrom,
  type TransactionRow,
  updateTransaction,
} from './rows.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import { WriteRefusedError } from './spanner/errors.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';

/**
 * Settles one pending payment by `Ledger.settle`'s contract: state, entry and event, or nothing.
 */
export function settlePayment(
  database: SpannerDatabase,
  request: SettleRequest,
): Promise<SettleOutcome> {
  const { txnId, result, settledAt, traceparent, chargeId } = request;
  return blamingInput(async () => {
    refuseBadEnd(result, chargeId);
    return database.transaction(async (tx) => {
      const row = await readTransaction(tx, txnId);
      if (row === undefined || row.kind === 'refund') return { outcome: 'stale' };
      if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
      const final = finalColumns(result, settledAt);
      const [version, events] = [row.version + 1n, row.events + 1n];
      tx.write(
        updateTransaction({
          txn_id: txnId,
          version,
          events,
          ...final,
          provider_charge_id: chargeId,
        }),
      );
      const settled = paymentFrom({
        ...row,
        version,
        events,
        state: result.state,
        settled_at: settledAt,
        failure_code: result.state === 'failed' ? result.failure.code : null,
        failure_message: result.state === 'failed' ? result.failure.message : null,
        provider_charge_id: chargeId ?? null,
        next_action: null,
      });
      const entry = paymentMovement(settled);
      if (entry !== undefined) tx.write(insertEntry(txnId, entry));
      tx.write(insertEvent(settlementEvent(settled, Number(events)), traceparent));
      await wakeRefunds(tx, txnId);
      return { outcome: 'settled' };
    });
  });
}

/** Refuses what a provider says of an end where no ledger holds it. @throws UnpostableError */
function refuseBadEnd(result: Settlement, providerId: string | undefined): void {
  const failure = result.state === 'failed' ? result.failure : undefined;
  refuseBadTexts([failure?.code, failure?.message, providerId]);
}

/** Whether a row can still be changed by who saw that version of it. */
export function isPendingAt(row: TransactionRow, version: number): boolean {
  return row.state === 'pending' && row.version === BigInt(version);
}

/**
 * A row that is exactly as the request would have left it, after a commit without an answer, is it.
 */
function ownDoing(
  tx: SpannerTransaction,
  row: TransactionRow,
  { version, result, settledAt }: SettleRequest,
): SettleOutcome {
  const code = result.state === 'failed' ? result.failure.code : null;
  const isOurs =
    tx.mayHaveCommitted &&
    row.version > BigInt(version) &&
    row.state === result.state &&
    row.failure_code === code &&
    row.settled_at?.getTime() === settledAt.getTime();
  return { outcome: isOurs ? 'settled' : 'stale' };
}

const waitingSql = `
  SELECT txn_id, version FROM transactions@{FORCE_INDEX=refunds_of_a_payment, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE payment_id = @txnId AND state = 'pending' AND due_at > @now`;

/**
 * Refunds that wait for the payment can go on now. One that looked at it before it was final has
 * committed, or is aborted and looks again: both hold the payment's row.
 */
async function wakeRefunds(tx: SpannerTransaction, txnId: TxnId): Promise<void> {
  // By this process's clock. One that is wrong delays them, or costs a write.
  const now = new Date();
  const waiting = await tx.query<{ txn_id: string; version: bigint }>(waitingSql, { txnId, now });
  for (const { txn_id, version } of waiting) {
    tx.write(updateTransaction({ txn_id, version: version + 1n, due_at: now }));
  }
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

/** A refund and its payment as they will be, before anything of it is written. */
export type RefundRows = { refund: TransactionRow; payment: TransactionRow | undefined };

/** Settles a reserved refund by `Refunds.settle`'s contract. */
export async function settleRefund(
  tx: SpannerTransaction,
  request: SettleRefundRequest,
): Promise<SettleOutcome> {
  refuseBadEnd(request.result, request.refundId);
  const row = await readTransaction(tx, request.txnId);
  if (row?.kind !== 'refund') return { outcome: 'stale' };
  if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
  const payment = await readTransaction(tx, row.payment_id as TxnId);
  const settled = settledRows({ refund: row, payment: paymentOfRefund(row, payment) }, request);
  tx.write(updateTransaction(refundColumns(settled.refund)));
  writeRefundEvent(tx, settled, request.traceparent);
  return { outcome: 'settled' };
}

/** What a settlement makes of both rows: what a failed refund had reserved is given back. */
export function settledRows(
  { refund, payment }: RefundRows,
  { result, settledAt, refundId }: Pick<SettleRefundRequest, 'result' | 'settledAt' | 'refundId'>,
): RefundRows {
  const amount = refund.amount ?? 0n;
  const isGiven = result.state === 'succeeded';
  return {
    refund: {
      ...refund,
      state: result.state,
      settled_at: settledAt,
      due_at: null,
      failure_code: result.state === 'failed' ? result.failure.code : null,
      failure_message: result.state === 'failed' ? result.failure.message : null,
      provider_refund_id: refundId ?? refund.provider_refund_id,
      version: refund.version + 1n,
    },
    payment: payment && {
      ...payment,
      amount_refunded: payment.amount_refunded + (isGiven ? amount : 0n),
      refund_reserved: payment.refund_reserved - (isGiven ? 0n : amount),
      events: payment.events + 1n,
      version: payment.version + 1n,
    },
  };
}

/** Writes the payment's side, the entry and the event of a refund that is final now. */
export function writeRefundEvent(
  tx: SpannerTransaction,
  { refund: row, payment }: RefundRows,
  traceparent: string,
): void {
  const refund = refundFrom(row, payment);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const order =
    payment === undefined
      ? { orderedBy: refund.txnId, sequence: 1 }
      : { orderedBy: refund.paymentId, sequence: Number(payment.events) };
  if (payment !== undefined) tx.write(updateTransaction(paymentColumns(payment)));
  const entry = refundMovement(refund);
  if (entry !== undefined) tx.write(insertEntry(refund.txnId, entry));
  tx.write(insertEvent(refundEventOf({ refund, ...order }), traceparent));
}

/** Everything of a refund's row that changes. */
export function refundColumns(row: TransactionRow) {
  const { txn_id, version, state, amount, currency, due_at, provider_refund_id } = row;
  const { settled_at, failure_code, failure_message } = row;
  const changing = { state, amount, currency, due_at, provider_refund_id };
  return { txn_id, version, ...changing, settled_at, failure_code, failure_message };
}

/** Everything of a payment's row that its refunds change. */
export function paymentColumns(row: TransactionRow) {
  const { txn_id, version, events, refund_reserved, amount_refunded } = row;
  return { txn_id, version, events, refund_reserved, amount_refunded };
}

/** Records a losing payment by `Ledger.recordKeyConflict`'s contract. */
export function recordKeyConflict(database: SpannerDatabase, posting: Posting): Promise<EventId> {
  return record(database, keyConflictEventOf(posting.payment), posting.traceparent);
}

/** Records a losing refund by `Refunds.recordKeyConflict`'s contract. */
export function recordRefundConflict(
  database: SpannerDatabase,
  posting: RefundPosting,
): Promise<EventId> {
  return record(database, refundKeyConflictEventOf(posting.refund), posting.traceparent);
}

async function record(
  database: SpannerDatabase,
  event: PaymentEvent,
  traceparent: string,
): Promise<EventId> {
  const sql = 'SELECT event_id FROM outbox WHERE event_id = @id';
  await blamingInput(() =>
    database.transaction(async (tx) => {
      const known = await tx.query(sql, { id: event.event_id });
      if (known.length === 0) tx.write(insertEvent(event, traceparent));
    }),
  );
  return event.event_id;
}

/** Runs a write and says of its error whether the input is to blame. */
export async function blamingInput<Result>(write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof WriteRefusedError)) throw error;
    throw new UnpostableError(error.message, { cause: error });
  }
}
