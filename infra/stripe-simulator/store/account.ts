import type {
  BalanceTransactionRecord,
  ChargeRecord,
  DisputeRecord,
  EventRecord,
  PaymentIntentRecord,
  PaymentMethodRecord,
  RefundRecord,
} from '../records.ts';
import type { Change } from './journal.ts';

/** All that the simulated account holds, in memory; the journal is what it is made from. */
export type Account = {
  readonly paymentIntents: Table<PaymentIntentRecord>;
  readonly paymentMethods: Table<PaymentMethodRecord>;
  readonly charges: Table<ChargeRecord>;
  readonly refunds: Table<RefundRecord>;
  readonly disputes: Table<DisputeRecord>;
  readonly balanceTransactions: Table<BalanceTransactionRecord>;
  readonly events: Table<EventRecord>;
  /**
   * Ids of what will change by itself: payments in processing, authorisations, refunds on their
   * way.
   */
  readonly unsettled: ReadonlySet<string>;
  /**
   * Every version of an intent with its time, oldest first: what a search that lags behind sees.
   */
  versionsOf(id: string): readonly Version[];
  refundsOf(paymentIntent: string): readonly RefundRecord[];
  chargesOf(paymentIntent: string): readonly ChargeRecord[];
  disputesOf(charge: string): readonly DisputeRecord[];
  apply(change: Change, at: number): void;
  clear(): void;
};

export type Version = { readonly at: number; readonly record: PaymentIntentRecord };

/** An account in which nothing has happened yet. */
export function createAccount(): Account {
  const paymentIntents = createTable<PaymentIntentRecord>();
  const paymentMethods = createTable<PaymentMethodRecord>();
  const charges = createTable<ChargeRecord>();
  const refunds = createTable<RefundRecord>();
  const disputes = createTable<DisputeRecord>();
  const balanceTransactions = createTable<BalanceTransactionRecord>();
  const events = createTable<EventRecord>();
  const tables = [paymentIntents, paymentMethods, charges, refunds, disputes, balanceTransactions];
  const unsettled = new Set<string>();
  const versions = new Map<string, Version[]>();
  const refundIds = new Map<string, Set<string>>();
  const chargeIds = new Map<string, Set<string>>();
  const disputeIds = new Map<string, Set<string>>();

  const watch = (row: PaymentIntentRecord | RefundRecord) => {
    if (row.settlement !== null || isHeld(row)) unsettled.add(row.id);
    else unsettled.delete(row.id);
  };
  const move = (row: Moving, at: number) => {
    // A later version of a record shows what had moved before too.
    const isNew = ({ id }: { id: string }) => balanceTransactions.get(id) === undefined;
    movementsOf(row, at).filter(isNew).forEach(balanceTransactions.put);
  };
  const idsOf = (index: Map<string, Set<string>>, id: string) =>
    index.get(id) ?? index.set(id, new Set()).get(id)!;
  return {
    paymentIntents,
    paymentMethods,
    charges,
    refunds,
    disputes,
    balanceTransactions,
    events,
    unsettled,
    versionsOf: (id) => versions.get(id) ?? [],
    refundsOf: (id) => [...(refundIds.get(id) ?? [])].map((each) => refunds.get(each)!),
    chargesOf: (id) => [...(chargeIds.get(id) ?? [])].map((each) => charges.get(each)!),
    disputesOf: (id) => [...(disputeIds.get(id) ?? [])].map((each) => disputes.get(each)!),
    apply(change, at) {
      change.paymentMethods?.forEach((row) => paymentMethods.put(row));
      change.events?.forEach((row) => events.put(row));
      for (const row of change.paymentIntents ?? []) {
        paymentIntents.put(row);
        versions.set(row.id, [...(versions.get(row.id) ?? []), { at, record: row }]);
        watch(row);
      }
      for (const row of change.charges ?? []) {
        charges.put(row);
        move(row, at);
        idsOf(chargeIds, row.paymentIntent).add(row.id);
      }
      for (const row of change.refunds ?? []) {
        refunds.put(row);
        move(row, at);
        idsOf(refundIds, row.paymentIntent).add(row.id);
        watch(row);
      }
      for (const row of change.disputes ?? []) {
        disputes.put(row);
        idsOf(disputeIds, row.charge).add(row.id);
        move(row, at);
      }
    },
    clear() {
      for (const each of [...tables, events, unsettled]) each.clear();
      for (const index of [versions, refundIds, chargeIds, disputeIds]) index.clear();
    },
  };
}

/** Whether it is an authorisation that waits to be captured, and expires. */
export function isHeld(row: PaymentIntentRecord | RefundRecord): boolean {
  return row.kind === 'payment_intent' && row.captureBefore !== null;
}

/** The balance transaction that a charge or a refund names as its own; it follows from its id. */
export function balanceTransactionIdOf({ id }: { id: string }): string {
  return `txn_${id.slice(id.indexOf('_') + 1)}`;
}

type Moving = ChargeRecord | RefundRecord | DisputeRecord;

/**
 * How a record has moved the balance up to this version of it, the last of it at `at`; there are no
 * fees, and what is only held has moved nothing:
 * https://docs.stripe.com/reports/balance-transaction-types
 */
export function movementsOf(record: Moving, at: number): BalanceTransactionRecord[] {
  const { id: source, currency } = record;
  const kind = 'balance_transaction';
  const common = {
    kind,
    id: balanceTransactionIdOf(record),
    created: at,
    currency,
    source,
  } as const;
  const back = { ...common, id: `${common.id}_back`, amount: record.amount };
  const out = { ...common, created: record.created, amount: -record.amount };
  switch (record.kind) {
    case 'charge': {
      const taken = { ...common, amount: record.amountCaptured, type: 'charge' } as const;
      return record.captured ? [{ ...taken, reportingCategory: 'charge' }] : [];
    }
    case 'refund':
      if (record.gives === 'held') return [];
      return [
        { ...out, type: 'refund', reportingCategory: 'refund' },
        ...(record.status === 'failed'
          ? [{ ...back, type: 'refund_failure', reportingCategory: 'refund_failure' } as const]
          : []),
      ];
    case 'dispute':
      return [
        { ...out, type: 'adjustment', reportingCategory: 'dispute' },
        ...(record.status === 'won'
          ? [{ ...back, type: 'adjustment', reportingCategory: 'dispute_reversal' } as const]
          : []),
      ];
  }
}

/** Records of one kind by id, in the order in which they were first put in. */
export type Table<Row extends { readonly id: string }> = {
  get(id: string): Row | undefined;
  put(row: Row): void;
  /** From the newest to the oldest. */
  newestFirst(): Iterable<Row>;
  /** From the newest that is older than this one. */
  olderThan(id: string): Iterable<Row>;
  /** From the oldest that is newer than this one to the newest. */
  newerThan(id: string): Iterable<Row>;
  oldestFirst(): Iterable<Row>;
  size(): number;
  clear(): void;
};

/** An empty table. Pages cost what they show, not what the table holds. */
function createTable<Row extends { readonly id: string }>(): Table<Row> {
  const positions = new Map<string, number>();
  let rows: Row[] = [];

  function* down(from: number) {
    for (let position = from; position >= 0; position -= 1) yield rows[position]!;
  }
  function* up(from: number) {
    for (let position = from; position < rows.length; position += 1) yield rows[position]!;
  }
  return {
    get: (id) => rows[positions.get(id) ?? -1],
    put(row) {
      const position = positions.get(row.id) ?? rows.length;
      positions.set(row.id, position);
      rows[position] = row;
    },
    newestFirst: () => down(rows.length - 1),
    olderThan: (id) => down((positions.get(id) ?? 0) - 1),
    newerThan: (id) => up((positions.get(id) ?? rows.length) + 1),
    oldestFirst: () => up(0),
    size: () => rows.length,
    clear() {
      positions.clear();
      rows = [];
    },
  };
}

type Sum = { count: number; amount: number };
type Sums = Record<string, Sum>;

/** The provider's own account of its money, to compare the pipeline's ledger with. */
export type AccountAudit = {
  /** By status. */
  readonly paymentIntents: Record<string, number>;
  /**
   * By currency: `charges` is what was captured, `held` what authorisations hold, `refunds` what of
   * the captured was given back and did not fail, `disputes` what was not won.
   */
  readonly charges: Sums;
  readonly held: Sums;
  readonly refunds: Sums;
  readonly disputes: Sums;
  /** Intents with more than one charge that takes or holds money. There must be none. */
  readonly chargedTwice: readonly string[];
  /** Such charges that the same value of a metadata key shares; only when a key is named. */
  readonly sharedMetadata: readonly {
    readonly value: string;
    readonly charges: readonly string[];
  }[];
};

/** Counts and sums over everything, in minor units. */
export function auditAccount(account: Account, metadataKey?: string): AccountAudit {
  const paymentIntents: Record<string, number> = {};
  const [charges, held, refunds, disputes]: [Sums, Sums, Sums, Sums] = [{}, {}, {}, {}];
  const byIntent = new Map<string, number>();
  const byValue = new Map<string, string[]>();
  for (const { status } of account.paymentIntents.oldestFirst()) {
    paymentIntents[status] = (paymentIntents[status] ?? 0) + 1;
  }
  for (const charge of account.charges.oldestFirst()) {
    const { status, captured, currency, amount, amountCaptured } = charge;
    // An authorisation that was let go takes nothing and holds nothing.
    if (status !== 'succeeded' || (!captured && charge.amountRefunded === amount)) continue;
    if (captured) add(charges, { currency, amount: amountCaptured });
    else add(held, charge);
    byIntent.set(charge.paymentIntent, (byIntent.get(charge.paymentIntent) ?? 0) + 1);
    const value = metadataKey === undefined ? undefined : charge.metadata[metadataKey];
    if (value !== undefined) byValue.set(value, [...(byValue.get(value) ?? []), charge.id]);
  }
  for (const refund of account.refunds.oldestFirst()) {
    if (refund.status !== 'failed' && refund.gives === 'captured') add(refunds, refund);
  }
  for (const dispute of account.disputes.oldestFirst()) {
    if (dispute.status !== 'won') add(disputes, dispute);
  }
  const chargedTwice = [...byIntent].filter(([, count]) => count > 1).map(([id]) => id);
  const sharedMetadata = [...byValue]
    .filter(([, ids]) => ids.length > 1)
    .map(([value, ids]) => ({ value, charges: ids }));
  return { paymentIntents, charges, held, refunds, disputes, chargedTwice, sharedMetadata };
}

function add(sums: Sums, { currency, amount }: { currency: string; amount: number }): void {
  const sum = (sums[currency] ??= { count: 0, amount: 0 });
  sum.count += 1;
  sum.amount += amount;
}
