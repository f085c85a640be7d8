import type {
  ChargeRecord,
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
  readonly events: Table<EventRecord>;
  /** Ids of what will change by itself: payments in processing, refunds on their way. */
  readonly unsettled: ReadonlySet<string>;
  /**
   * Every version of an intent with its time, oldest first: what a search that lags behind sees.
   */
  versionsOf(id: string): readonly Version[];
  refundsOf(paymentIntent: string): readonly RefundRecord[];
  chargesOf(paymentIntent: string): readonly ChargeRecord[];
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
  const events = createTable<EventRecord>();
  const tables = [paymentIntents, paymentMethods, charges, refunds, events];
  const unsettled = new Set<string>();
  const versions = new Map<string, Version[]>();
  const refundIds = new Map<string, Set<string>>();
  const chargeIds = new Map<string, Set<string>>();

  const watch = (row: PaymentIntentRecord | RefundRecord) => {
    if (row.settlement === null) unsettled.delete(row.id);
    else unsettled.add(row.id);
  };
  const idsOf = (index: Map<string, Set<string>>, id: string) => {
    const known = index.get(id) ?? new Set();
    index.set(id, known);
    return known;
  };
  return {
    paymentIntents,
    paymentMethods,
    charges,
    refunds,
    events,
    unsettled,
    versionsOf: (id) => versions.get(id) ?? [],
    refundsOf: (id) => [...(refundIds.get(id) ?? [])].map((each) => refunds.get(each)!),
    chargesOf: (id) => [...(chargeIds.get(id) ?? [])].map((each) => charges.get(each)!),
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
        idsOf(chargeIds, row.paymentIntent).add(row.id);
      }
      for (const row of change.refunds ?? []) {
        refunds.put(row);
        idsOf(refundIds, row.paymentIntent).add(row.id);
        watch(row);
      }
    },
    clear() {
      for (const each of [...tables, unsettled, versions, refundIds, chargeIds]) each.clear();
    },
  };
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
  /** By currency; `charges` are the successful ones, `refunds` those that have not failed. */
  readonly charges: Sums;
  readonly refunds: Sums;
  /** Intents with more than one successful charge. There must be none. */
  readonly chargedTwice: readonly string[];
  /** Successful charges that the same value of a metadata key shares; only when a key is named. */
  readonly sharedMetadata: readonly {
    readonly value: string;
    readonly charges: readonly string[];
  }[];
};

/** Counts and sums over everything, in minor units. */
export function auditAccount(account: Account, metadataKey?: string): AccountAudit {
  const paymentIntents: Record<string, number> = {};
  const charges: Sums = {};
  const refunds: Sums = {};
  const byIntent = new Map<string, number>();
  const byValue = new Map<string, string[]>();
  for (const { status } of account.paymentIntents.oldestFirst()) {
    paymentIntents[status] = (paymentIntents[status] ?? 0) + 1;
  }
  for (const charge of account.charges.oldestFirst()) {
    if (charge.status !== 'succeeded') continue;
    add(charges, charge);
    byIntent.set(charge.paymentIntent, (byIntent.get(charge.paymentIntent) ?? 0) + 1);
    const value = metadataKey === undefined ? undefined : charge.metadata[metadataKey];
    if (value !== undefined) byValue.set(value, [...(byValue.get(value) ?? []), charge.id]);
  }
  for (const refund of account.refunds.oldestFirst()) {
    if (refund.status !== 'failed') add(refunds, refund);
  }
  const chargedTwice = [...byIntent].filter(([, count]) => count > 1).map(([id]) => id);
  const sharedMetadata = [...byValue]
    .filter(([, ids]) => ids.length > 1)
    .map(([value, ids]) => ({ value, charges: ids }));
  return { paymentIntents, charges, refunds, chargedTwice, sharedMetadata };
}

function add(sums: Sums, { currency, amount }: { currency: string; amount: number }): void {
  const sum = (sums[currency] ??= { count: 0, amount: 0 });
  sum.count += 1;
  sum.amount += amount;
}
