import type { Money, TxnId } from '@triplock/payments';

/**
 * What every object of ours at Stripe carries; an answer off the wire may have any of it missing.
 */
type Ours = { amount?: number; currency?: string; metadata?: { [name: string]: string } | null };

/** Whether it is of this transaction, for its amount and in its currency. */
export function isAbout(
  { amount, currency, metadata }: Ours,
  { txnId, money }: { txnId: TxnId; money: Money },
): boolean {
  return (
    amount === Number(money.amount) &&
    currency === money.currency.toLowerCase() &&
    metadata?.['txn_id'] === txnId
  );
}
