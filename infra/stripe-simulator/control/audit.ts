import type { Account } from '../store/account.ts';

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
