import { bucketCount, encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import { bucketOf, type AcceptedPayment, type Payment, type TxnId } from '@triplock/payments';
import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type {
  Ledger,
  Posting,
  PostOutcome,
  SettleOutcome,
  SettleRequest,
  StoreIntentOutcome,
  StoreIntentRequest,
} from '../ledger.ts';
import {
  compare,
  firstOfEach,
  paymentMovement,
  refuseBadEnd,
  refuseBadTexts,
  settledPayment,
  settlementEvent,
  stateAfter,
  type RowState,
} from '../outcomes.ts';
import { columnLists } from '../columns.ts';
import { otherDetails, paymentOf, type PaymentRow } from '../rows.ts';
import { ownMs } from '../unfinished.ts';
import { inSharedTransactions } from './batches.ts';
import {
  appendSettlements,
  blamingInput,
  columnsOf,
  recordKeyConflict,
  settleParameters,
} from './settlement.ts';
import {
  authorize,
  awaitCustomer,
  findDispute,
  findPayment,
  isEmpty,
  kindsOf,
  postedWithin,
  listDisputes,
  listPayments,
  noteDispute,
  pendingSums,
  readStates,
  storeIntents,
} from './transactions.ts';

const postSql = loadSql(import.meta.url, 'post.sql');
const settleSql = loadSql(import.meta.url, 'settle.sql', columnLists);

/**
 * The ledger in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find`,
 * `kindsOf`, `postedWithin`, `list`, `pendingOf` and `isEmpty` need only to read
 * `ledger.transactions`, and those of disputes their tables too. Closing it closes the pool.
 */
export function openPostgresLedger(database: Database): Ledger {
  const stale = { outcome: 'stale' } as const;
  const storing = { name: 'store-intent', statements: 'one', take: storeIntents, stale } as const;
  const storeIntent = inSharedTransactions<StoreIntentRequest, StoreIntentOutcome>(
    database,
    storing,
  );
  const settling = {
    name: 'settle-payment',
    statements: 'several',
    take: settlePayments,
    stale,
  } as const;
  const settle = inSharedTransactions<SettleRequest, SettleOutcome>(database, settling);
  return {
    post: (batch) => postPayments(database, batch),
    storeIntent: async (request) => {
      refuseBadTexts([request.intentId]);
      return storeIntent(request);
    },
    awaitCustomer: (request) => awaitCustomer(database, request),
    authorize: (request) => authorize(database, request),
    settle: async (request) => {
      refuseBadEnd(request.result, request.chargeId, request.intent?.intentId);
      return settle(request);
    },
    noteDispute: (report) => noteDispute(database, report),
    findDispute: (asked) => findDispute(database, asked),
    listDisputes: (request) => listDisputes(database, request),
    recordKeyConflict: (posting) => recordKeyConflict(database, posting),
    find: (txnId) => findPayment(database, txnId),
    kindsOf: (ids) => kindsOf(database, ids),
    postedWithin: (ms) => postedWithin(database, ms),
    list: (request) => listPayments(database, request),
    pendingOf: (partnerId) => pendingSums(database, partnerId),
    isEmpty: () => isEmpty(database),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

/** Normally 1. An id still open after it was held when the insert looked and free afterwards. */
const roundsMax = 3;

/** Posts a batch by `Ledger.post`'s contract. */
async function postPayments(database: Database, batch: readonly Posting[]): Promise<PostOutcome[]> {
  const firsts = firstOfEach(batch, ({ payment }) => payment.txnId);
  const made = new Set<TxnId>();
  const states = new Map<TxnId, RowState>();
  for (let round = 0; states.size < firsts.size; round += 1) {
    const open = [...firsts.values()].filter(({ payment }) => !states.has(payment.txnId));
    if (round === roundsMax) throw unresolved(open);
    for (const txnId of await insert(database, open)) {
      made.add(txnId);
      states.set(txnId, stateAfter(firsts.get(txnId)!));
    }
    const refused = open.map(({ payment }) => payment.txnId).filter((id) => !made.has(id));
    for (const row of await readStates(database, refused)) states.set(row.txn_id, row);
  }
  return batch.map((posting) => {
    const { txnId } = posting.payment;
    // The first of its id made the row; the ones after it in the batch are its duplicates.
    return made.delete(txnId) ? { outcome: 'posted' } : compare(posting, states.get(txnId)!);
  });
}

async function insert(database: Database, open: readonly Posting[]): Promise<TxnId[]> {
  const input = `[${open.map(postingJson).join(',')}]`;
  const rows = await blamingInput(() => database.query<{ txn_id: TxnId }>(postSql, [input, ownMs]));
  return rows.map((row) => row.txn_id);
}

function unresolved(open: readonly Posting[]): Error {
  const ids = open.map((posting) => posting.payment.txnId).join(', ');
  return new Error(
    `could neither insert nor find ${ids}: their keys are stored under other ids, or every writer rolled back`,
  );
}

/**
 * A posting as the JSON object that `post.sql` reads; absent fields become NULL there. The event's
 * text goes in as it is and not as a string in a string: escaping its quotes would be a third of
 * the work of posting.
 */
function postingJson(posting: Posting): string {
  const { payment, settlement, traceparent, provider } = posting;
  if (settlement === undefined) {
    return JSON.stringify({ ...requestRow(payment), state: 'pending', provider, traceparent });
  }
  const settled = settledPayment(payment, settlement);
  const event = settlementEvent(settled, 1);
  const row = { ...requestRow(payment), ...settlementRow(settled, event), traceparent };
  return `${JSON.stringify(row).slice(0, -1)},"payload":${encodePaymentEvent(event).payload}}`;
}

function requestRow(payment: AcceptedPayment): object {
  const { money, paymentMethod, reference } = payment.details;
  return {
    txn_id: payment.txnId,
    kind: payment.kind,
    partner_id: payment.partnerId,
    idempotency_key: payment.key,
    fingerprint: `\\x${payment.fingerprint}`,
    response_version: payment.responseVersion,
    amount: String(money.amount),
    currency: money.currency,
    payment_method: paymentMethod,
    reference,
    details: otherDetails(payment) ?? undefined,
    // As text already: JSON.stringify takes twice as long to ask a Date for it.
    created_at: payment.acceptedAt.toISOString(),
  };
}

function settlementRow(payment: Payment, event: PaymentEvent): object {
  const entry = paymentMovement(payment);
  return {
    state: payment.state,
    failure_code: payment.failure?.code,
    failure_message: payment.failure?.message,
    settled_at: payment.settledAt?.toISOString(),
    debit_account: entry?.debit,
    credit_account: entry?.credit,
    event_id: event.event_id,
    event_type: event.type,
    bucket: bucketOf(payment.txnId, bucketCount),
  };
}

/**
 * Settles pending payments by `Ledger.settle`'s contract, in the transaction that it is given: of
 * each its state, entry and event, or nothing.
 */
async function settlePayments(
  tx: Queryable,
  requests: readonly SettleRequest[],
): Promise<(SettleOutcome | undefined)[]> {
  const asked = requests.map((request) => {
    const { result, chargeId, intent } = request;
    const captured = result.state === 'captured' ? result.amount : null;
    const made = [intent?.provider ?? null, intent?.intentId ?? null];
    return [...settleParameters(request, chargeId), captured, ...made];
  });
  const rows = await tx.query<PaymentRow>(settleSql, columnsOf(asked));
  const traces = new Map(requests.map(({ txnId, traceparent }) => [txnId, traceparent]));
  const settled = rows.map((row) => {
    const payment = paymentOf(row);
    const event = settlementEvent(payment, row.events);
    const traceparent = traces.get(payment.txnId)!;
    return { event, traceparent, entry: paymentMovement(payment) };
  });
  await appendSettlements(tx, settled);
  const ended = new Set(rows.map((row) => row.txn_id));
  return requests.map(({ txnId }) => (ended.has(txnId) ? { outcome: 'settled' } : undefined));
}

/** Settles one payment whose row's lock the transaction holds. */
export async function settleIn(tx: Queryable, request: SettleRequest): Promise<SettleOutcome> {
  refuseBadEnd(request.result, request.chargeId);
  const [outcome] = await settlePayments(tx, [request]);
  return outcome ?? { outcome: 'stale' };
}
