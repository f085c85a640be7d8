import {
  keyConflictEventOf,
  type PaymentEvent,
  followUpEventOf,
  followUpKeyConflictEventOf,
} from '@triplock/contracts';
import {
  failureIn,
  paymentMovement,
  type Posting,
  followUpMovement,
  type FollowUpPosting,
  refuseBadEnd,
  settlementEvent,
  type SettleOutcome,
  type SettleFollowUpRequest,
  type SettleRequest,
  UnpostableError,
} from '@triplock/ledger';
import {
  closesPayment,
  type EventId,
  type FollowUpKind,
  isFollowUp,
  type TxnId,
} from '@triplock/payments';
import {
  finalColumns,
  insertEntry,
  insertEvent,
  paymentFrom,
  paymentOfFollowUp,
  readTransaction,
  followUpFrom,
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
  const { txnId, result, settledAt, traceparent, chargeId, intent } = request;
  return blamingInput(async () => {
    refuseBadEnd(result, chargeId, intent?.intentId);
    return database.transaction(async (tx) => {
      const row = await readTransaction(tx, txnId);
      if (row === undefined || row.payment_id !== null) return { outcome: 'stale' };
      if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
      const { provider, provider_intent_id: known } = row;
      const isOthers = known !== null || (provider ?? intent?.provider) !== intent?.provider;
      if (intent !== undefined && isOthers) return { outcome: 'stale' };
      const made = intent && { provider: intent.provider, provider_intent_id: intent.intentId };
      const end = { result, settledAt, traceparent, chargeId };
      await endPayment(tx, { ...row, ...made }, end);
      return { outcome: 'settled' };
    });
  });
}

type PaymentEnd = Pick<SettleRequest, 'result' | 'settledAt' | 'traceparent'> & {
  chargeId: string | undefined;
  /** The capture or cancellation that ends with it. */
  ending?: string;
};

/**
 * Writes the end of a pending payment, whose row is as it was read or will be: state, entry, event,
 * and that what waits for it can go on.
 */
async function endPayment(
  tx: SpannerTransaction,
  row: TransactionRow,
  { result, settledAt, traceparent, chargeId, ending }: PaymentEnd,
): Promise<void> {
  const txnId = row.txn_id as TxnId;
  const [version, events] = [row.version + 1n, row.events + 1n];
  const captured = result.state === 'captured' ? result.amount : null;
  const ended = { provider_charge_id: chargeId ?? null, amount_captured: captured };
  const final = { ...finalColumns(result, settledAt), ...ended };
  tx.write(
    updateTransaction({
      txn_id: txnId,
      version,
      events,
      closed_by: row.closed_by,
      provider: row.provider,
      provider_intent_id: row.provider_intent_id,
      ...final,
    }),
  );
  const settled = paymentFrom({
    ...row,
    version,
    events,
    state: result.state,
    settled_at: settledAt,
    failure_code: failureIn(result)?.code ?? null,
    failure_message: failureIn(result)?.message ?? null,
    ...ended,
    next_action: null,
  });
  const entry = paymentMovement(settled);
  if (entry !== undefined) tx.write(insertEntry(txnId, entry));
  tx.write(insertEvent(settlementEvent(settled, Number(events)), traceparent));
  await wakeFollowUps(tx, txnId, ending);
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
  const code = failureIn(result)?.code ?? null;
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
  WHERE payment_id = @txnId AND state = 'pending' AND due_at > @now
  ORDER BY created_at, txn_id`;

/**
 * Refunds that wait for the payment can go on now. One that looked at it before it was final has
 * committed, or is aborted and looks again: both hold the payment's row. What is `ending` in the
 * same transaction is still read as pending.
 */
export async function wakeFollowUps(
  tx: SpannerTransaction,
  txnId: TxnId,
  ending?: string,
): Promise<void> {
  // By this process's clock. One that is wrong delays them, or costs a write.
  const now = new Date();
  const waiting = await tx.query<{ txn_id: string; version: bigint }>(waitingSql, { txnId, now });
  for (const [nth, { txn_id, version }] of waiting.entries()) {
    if (txn_id === ending) continue;
    // In the order in which they are to be decided.
    const due_at = new Date(+now + nth);
    tx.write(updateTransaction({ txn_id, version: version + 1n, due_at }));
  }
}

/** A refund and its payment as they will be, before anything of it is written. */
export type FollowUpRows = { followUp: TransactionRow; payment: TransactionRow | undefined };

/** Settles a reserved refund by `FollowUps.settle`'s contract. */
export async function settleFollowUp(
  tx: SpannerTransaction,
  request: SettleFollowUpRequest,
): Promise<SettleOutcome> {
  refuseBadEnd(request.result, request.refundId);
  if (request.payment !== undefined) refuseBadEnd(request.payment.result, request.payment.chargeId);
  const row = await readTransaction(tx, request.txnId);
  if (row === undefined || !isFollowUp(row.kind)) return { outcome: 'stale' };
  if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
  const payment = await readTransaction(tx, row.payment_id as TxnId);
  const settled = settledRows({ followUp: row, payment: paymentOfFollowUp(row, payment) }, request);
  tx.write(updateTransaction(refundColumns(settled.followUp)));
  await writeFollowUpEvent(tx, settled, request);
  return { outcome: 'settled' };
}

/** What a settlement makes of both rows: what one that failed had reserved is given back. */
export function settledRows(
  { followUp, payment }: FollowUpRows,
  { result, settledAt, refundId }: Pick<SettleFollowUpRequest, 'result' | 'settledAt' | 'refundId'>,
): FollowUpRows {
  const amount = followUp.amount ?? 0n;
  const isRefund = !closesPayment(followUp.kind as FollowUpKind);
  const isGiven = result.state === 'succeeded';
  return {
    followUp: {
      ...followUp,
      state: result.state,
      settled_at: settledAt,
      due_at: null,
      failure_code: failureIn(result)?.code ?? null,
      failure_message: failureIn(result)?.message ?? null,
      provider_refund_id: refundId ?? followUp.provider_refund_id,
      version: followUp.version + 1n,
    },
    payment: payment && {
      ...payment,
      amount_refunded: payment.amount_refunded + (isRefund && isGiven ? amount : 0n),
      refund_reserved: payment.refund_reserved - (isRefund && !isGiven ? amount : 0n),
      closed_by: !isGiven && payment.closed_by === followUp.txn_id ? null : payment.closed_by,
      events: payment.events + 1n,
      version: payment.version + 1n,
    },
  };
}

/**
 * Writes the payment's side, the entry and the event of a refund that is final now, and the end of
 * the payment where it ends with that.
 */
export async function writeFollowUpEvent(
  tx: SpannerTransaction,
  { followUp: row, payment }: FollowUpRows,
  {
    traceparent,
    settledAt,
    payment: end,
  }: Omit<SettleFollowUpRequest, 'txnId' | 'version' | 'result'>,
): Promise<void> {
  const followUp = followUpFrom(row, payment);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const order =
    payment === undefined
      ? { orderedBy: followUp.txnId, sequence: 1 }
      : { orderedBy: followUp.paymentId, sequence: Number(payment.events) };
  if (payment !== undefined && end === undefined) {
    tx.write(updateTransaction(paymentColumns(payment)));
  }
  const entry = followUpMovement(followUp);
  if (entry !== undefined) tx.write(insertEntry(followUp.txnId, entry));
  tx.write(insertEvent(followUpEventOf({ followUp, ...order }), traceparent));
  if (payment === undefined || end === undefined) return;
  const { result, chargeId } = end;
  await endPayment(tx, payment, {
    result,
    chargeId,
    settledAt,
    traceparent,
    ending: row.txn_id,
  });
}

/** Everything of a refund's row that changes. */
export function refundColumns(row: TransactionRow) {
  const { txn_id, version, state, amount, currency, due_at, provider, provider_refund_id } = row;
  const { settled_at, failure_code, failure_message } = row;
  const changing = { state, amount, currency, due_at, provider, provider_refund_id };
  return { txn_id, version, ...changing, settled_at, failure_code, failure_message };
}

/** Everything of a payment's row that what follows it changes before its end. */
export function paymentColumns(row: TransactionRow) {
  const { txn_id, version, events, refund_reserved, amount_refunded, closed_by } = row;
  return { txn_id, version, events, refund_reserved, amount_refunded, closed_by };
}

/** Records a losing payment by `Ledger.recordKeyConflict`'s contract. */
export function recordKeyConflict(database: SpannerDatabase, posting: Posting): Promise<EventId> {
  return record(database, keyConflictEventOf(posting.payment), posting.traceparent);
}

/** Records a losing refund by `Refunds.recordKeyConflict`'s contract. */
export function recordRefundConflict(
  database: SpannerDatabase,
  posting: FollowUpPosting,
): Promise<EventId> {
  return record(database, followUpKeyConflictEventOf(posting.followUp), posting.traceparent);
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
