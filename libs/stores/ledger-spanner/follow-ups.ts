import {
  detailsText,
  otherFollowUpDetails,
  ownMs,
  pageBytesMax,
  type FollowUpDecision,
  type FollowUpEnd,
  type RefundListOutcome,
  type RefundListRequest,
  type FollowUpOutcome,
  type FollowUpPosting,
  type FollowUps,
  type ReservedFollowUp,
  refuseBadTexts,
  resultOf,
} from '@triplock/ledger';
import {
  closesPayment,
  followUpKinds,
  isFollowUp,
  type AcceptedFollowUp,
  type Fingerprint,
  type FollowUp,
  type FollowUpKind,
  type TxnId,
} from '@triplock/payments';
import {
  type Columns,
  insertTransaction,
  paymentOfFollowUp,
  type Reader,
  readTransaction,
  followUpFrom,
  type TransactionRow,
  updateTransaction,
} from './rows.ts';
import {
  blamingInput,
  isPendingAt,
  paymentColumns,
  recordRefundConflict,
  refundColumns,
  type FollowUpRows,
  settledRows,
  settleFollowUp,
  writeFollowUpEvent,
} from './settlement.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';

/** Refunds in Cloud Spanner. The connection stays the caller's to close. */
export function openSpannerFollowUps(database: SpannerDatabase): FollowUps {
  return {
    post: (posting) =>
      blamingInput(async () => {
        refuseBadTexts(Object.values(posting.followUp.details));
        return database.transaction((tx) => postFollowUp(tx, posting));
      }),
    settle: (request) =>
      blamingInput(() => database.transaction((tx) => settleFollowUp(tx, request))),
    storeRefundId: (request) => storeRefundId(database, request),
    recordKeyConflict: (posting) => recordRefundConflict(database, posting),
    find: async (txnId) => findRefund(database, txnId),
    listOf: (request) => listRefunds(database, request),
  };
}

async function findRefund(reader: Reader, txnId: TxnId): Promise<FollowUp | undefined> {
  const row = await readTransaction(reader, txnId);
  if (row === undefined || !isFollowUp(row.kind)) return undefined;
  const payment = await readTransaction(reader, row.payment_id as TxnId);
  return followUpFrom(row, paymentOfFollowUp(row, payment));
}

function storeRefundId(
  database: SpannerDatabase,
  { txnId, version, refundId }: Parameters<FollowUps['storeRefundId']>[0],
): ReturnType<FollowUps['storeRefundId']> {
  return blamingInput(async () => {
    refuseBadTexts([refundId]);
    return database.transaction(async (tx) => {
      const row = await readTransaction(tx, txnId);
      if (row?.kind !== 'refund') return { outcome: 'stale' };
      const stored = { outcome: 'stored', version: version + 1 } as const;
      // After a commit without an answer: the same id at the next version is this call's own.
      const isOurs = row.provider_refund_id === refundId && isPendingAt(row, version + 1);
      if (tx.mayHaveCommitted && isOurs) return stored;
      if (!isPendingAt(row, version)) return { outcome: 'stale' };
      const columns = { provider_refund_id: refundId };
      tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, ...columns }));
      return stored;
    });
  });
}

const dayMs = 86_400_000;

/**
 * Posts a refund by `FollowUps.post`'s contract. Refund and payment are read under locks, so of
 * refunds racing on one payment each sees what the others reserved, or is aborted and looks again.
 */
export async function postFollowUp(
  tx: SpannerTransaction,
  posting: FollowUpPosting,
): Promise<FollowUpOutcome> {
  const { followUp: accepted, traceparent } = posting;
  const before = await readTransaction(tx, accepted.txnId);
  if (before !== undefined && before.fingerprint !== accepted.fingerprint) {
    return { outcome: 'key-conflict', winner: before.fingerprint as Fingerprint };
  }
  if (before !== undefined && before.state !== 'pending') {
    return { outcome: 'already-recorded', state: before.state };
  }
  const found = await readTransaction(tx, accepted.paymentId);
  const followUp = before ?? newRow(posting);
  const rows = { followUp, payment: paymentOfFollowUp(followUp, found) };
  const keep = (changed: TransactionRow) =>
    tx.write(
      before === undefined
        ? insertTransaction({ ...requestColumns(accepted), ...refundColumns(changed), traceparent })
        : updateTransaction(refundColumns(changed)),
    );

  const possible = closesPayment(accepted.kind) ? judgeClosing(rows) : judge(rows);
  const isBehind = followUp.amount === null && mayFollow.has(possible);
  const decision = isBehind && (await hasEarlier(tx, followUp)) ? 'behind' : possible;
  if (decision === 'waiting' || decision === 'behind') {
    const isLookedFor = rows.payment === undefined || decision === 'behind';
    const again = isLookedFor ? askedAgain(followUp, decision) : followUp;
    if (before === undefined || again !== followUp) keep(again);
    return { outcome: 'waiting' };
  }
  const held = decision === 'reserved' ? reserved(rows) : rows;
  const isAtProvider = decision === 'reserved' && held.payment?.provider_intent_id != null;
  const { money, provider } = followUpFrom(held.followUp, held.payment);
  const failure = isAtProvider && money && posting.refuse?.(money, provider!.name);
  if (isAtProvider && failure === undefined) {
    if (held !== rows) {
      keep(held.followUp);
      tx.write(updateTransaction(paymentColumns(held.payment!)));
    }
    const outcome = before === undefined ? 'reserved' : 'unfinished';
    const reservedOne = followUpFrom(held.followUp, held.payment) as ReservedFollowUp;
    return { outcome, followUp: reservedOne };
  }
  const result: FollowUpEnd = failure ? { state: 'failed', failure } : resultOf(decision);
  const settled = settledRows(held, { result, settledAt: posting.settledAt });
  keep(settled.followUp);
  await writeFollowUpEvent(tx, settled, { traceparent, settledAt: posting.settledAt });
  return { outcome: 'settled', state: result.state };
}

function judge({ followUp, payment }: FollowUpRows): FollowUpDecision {
  if (followUp.amount !== null) return 'reserved';
  if (payment === undefined) {
    // One that is not there a day after its refund was accepted was set aside and will not come.
    return +followUp.created_at > Date.now() - dayMs ? 'waiting' : 'payment_not_refundable';
  }
  if (payment.state === 'pending') return 'waiting';
  if (payment.state !== 'succeeded' && payment.state !== 'captured') {
    return 'payment_not_refundable';
  }
  const left = (payment.amount_captured ?? payment.amount!) - payment.refund_reserved;
  const fits = left > 0n && (followUp.requested_amount ?? 0n) <= left;
  return fits ? 'reserved' : 'amount_exceeds_refundable';
}

/** The same of a capture or cancellation, which takes the payment itself. */
function judgeClosing({ followUp, payment }: FollowUpRows): FollowUpDecision {
  if (followUp.amount !== null) return 'reserved';
  if (payment === undefined) {
    return +followUp.created_at > Date.now() - dayMs ? 'waiting' : 'payment_not_authorized';
  }
  const { state, amount, authorized_at, closed_by, failure_code } = payment;
  if (state === 'captured') return 'payment_already_captured';
  if (state === 'canceled')
    return failure_code as Exclude<FollowUpDecision, 'reserved' | 'waiting'>;
  if (state !== 'pending') return 'payment_not_authorized';
  if ((followUp.requested_amount ?? 0n) > amount!) return 'amount_exceeds_authorized';
  return authorized_at === null || closed_by !== null ? 'waiting' : 'reserved';
}

/**
 * With the refund's amount held on its payment, or the payment taken by its capture or
 * cancellation; as they are, when that was so before.
 */
function reserved(rows: FollowUpRows): FollowUpRows {
  const { followUp, payment } = rows;
  if (followUp.amount !== null || payment === undefined) return rows;
  const all = payment.amount_captured ?? payment.amount!;
  const amount = followUp.requested_amount ?? all - payment.refund_reserved;
  const held = closesPayment(followUp.kind as FollowUpKind)
    ? { closed_by: followUp.txn_id }
    : { refund_reserved: payment.refund_reserved + amount };
  const { currency, provider } = payment;
  return {
    followUp: { ...followUp, amount, currency, provider, version: followUp.version + 1n },
    payment: { ...payment, ...held, version: payment.version + 1n },
  };
}

/**
 * Its payment is not there: posting a batch of payments does not look for their refunds, so this
 * one is looked at again after a quarter of its age, a second at least and a minute at most. One
 * that is behind another is looked at again after a second.
 */
function askedAgain(refund: TransactionRow, decision: 'waiting' | 'behind'): TransactionRow {
  const ageMs = decision === 'behind' ? 0 : Date.now() - +refund.created_at;
  const due_at = new Date(Date.now() + Math.max(1_000, Math.min(60_000, ageMs / 4)));
  return { ...refund, due_at, version: refund.version + 1n };
}

/** What depends on the order: who comes first gets the money, or the payment. */
const mayFollow = new Set<FollowUpDecision>(['reserved', 'amount_exceeds_refundable']);

/**
 * Whether one of the same payment that was accepted before is undecided: the end of a payment wakes
 * all that wait for it at once, and they are decided in the order in which they were accepted.
 */
async function hasEarlier(tx: SpannerTransaction, one: TransactionRow): Promise<boolean> {
  const { payment_id, partner_id, created_at, txn_id } = one;
  const closes = closesPayment(one.kind as FollowUpKind);
  const kinds = followUpKinds.filter((kind) => closesPayment(kind) === closes);
  const found = await tx.query(earlierSql, { payment_id, partner_id, created_at, txn_id, kinds });
  return found.length > 0;
}

function newRow({ followUp, traceparent }: FollowUpPosting): TransactionRow {
  return {
    txn_id: followUp.txnId,
    kind: followUp.kind,
    partner_id: followUp.partnerId,
    idempotency_key: followUp.key,
    fingerprint: followUp.fingerprint,
    response_version: BigInt(followUp.responseVersion),
    payment_id: followUp.paymentId,
    requested_amount: followUp.details.amount ?? null,
    details: detailsText(otherFollowUpDetails(followUp)),
    created_at: followUp.acceptedAt,
    state: 'pending',
    version: 1n,
    events: 0n,
    due_at: new Date(Date.now() + ownMs),
    traceparent,
    refund_reserved: 0n,
    amount_refunded: 0n,
    ...unset,
  };
}

const unset = {
  action_expires_at: null,
  next_action: null,
  authorized_at: null,
  hold_expires_at: null,
  closed_by: null,
  amount_captured: null,
  amount: null,
  currency: null,
  payment_method: null,
  reference: null,
  failure_code: null,
  failure_message: null,
  settled_at: null,
  provider: null,
  provider_intent_id: null,
  provider_charge_id: null,
  provider_refund_id: null,
};

/** The columns that say what was asked for; they never change. */
function requestColumns(refund: AcceptedFollowUp): Columns {
  return {
    kind: refund.kind,
    partner_id: refund.partnerId,
    idempotency_key: refund.key,
    fingerprint: refund.fingerprint,
    response_version: refund.responseVersion,
    payment_id: refund.paymentId satisfies TxnId,
    requested_amount: refund.details.amount,
    details: detailsText(otherFollowUpDetails(refund)),
    created_at: refund.acceptedAt,
    events: 0,
  };
}

const hint = 'spanner_emulator.disable_query_null_filtered_index_check=true';
const earlierSql = `
  SELECT txn_id FROM transactions@{FORCE_INDEX=refunds_of_a_payment, ${hint}}
  WHERE payment_id = @payment_id AND partner_id = @partner_id AND kind IN UNNEST(@kinds)
    AND (created_at < @created_at OR (created_at = @created_at AND txn_id < @txn_id))
    AND settled_at IS NULL AND amount IS NULL
  LIMIT 1`;
const listSql = (filter: string) => `
  WITH behind AS (
    SELECT ARRAY(
      SELECT AS STRUCT * FROM transactions@{FORCE_INDEX=refunds_of_a_payment, ${hint}}
      WHERE payment_id = @paymentId AND partner_id = @partnerId AND kind = 'refund' AND ${filter}
      ORDER BY created_at DESC, txn_id DESC LIMIT @rows
    ) AS refunds
  )
  SELECT listed.*, place + 1 < ARRAY_LENGTH(behind.refunds) AS more
  FROM behind, UNNEST(behind.refunds) AS listed WITH OFFSET AS place
  WHERE place < @limit AND (
    place = 0
    OR (
      SELECT SUM(
        1024 + COALESCE(BYTE_LENGTH(before.details), 0)
        + COALESCE(BYTE_LENGTH(before.failure_message), 0)
      )
      FROM UNNEST(behind.refunds) AS before WITH OFFSET AS place_before
      WHERE place_before <= place
    ) <= @bytes
  )
  ORDER BY place`;
const behind = '(created_at < @before OR (created_at = @before AND txn_id < @after))';

/** The page of a payment's refunds after one of them, or the first page. It ends as in list.sql. */
export async function listRefunds(
  database: SpannerDatabase,
  { paymentId, partnerId, limit, bytesMax = pageBytesMax, after }: RefundListRequest,
): Promise<RefundListOutcome> {
  let before: Date | undefined;
  if (after !== undefined) {
    const position = await readTransaction(database, after);
    const isTheirs =
      position?.kind === 'refund' &&
      position.payment_id === paymentId &&
      position.partner_id === partnerId;
    if (!isTheirs) return { outcome: 'unknown-cursor' };
    before = position.created_at;
  }
  const most = { limit, rows: limit + 1, bytes: bytesMax };
  const wanted = { paymentId, partnerId, ...most, before, after };
  const sql = listSql(before === undefined ? 'TRUE' : behind);
  const rows = await database.query<TransactionRow & { more: boolean }>(sql, wanted);
  const payment = rows.length === 0 ? undefined : await readTransaction(database, paymentId);
  const refunds = rows.map((row) => followUpFrom(row, paymentOfFollowUp(row, payment)));
  return { outcome: 'page', refunds, hasMore: rows.at(-1)?.more ?? false };
}
