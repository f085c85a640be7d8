import type { Brand, PartnerId } from './nominal.ts';

/** An ISO 4217 code in upper case, e.g. `EUR`. */
export type Currency = Brand<string, 'Currency'>;

/** An amount in integer minor units (cents, yen, fils) and its currency; never a fraction. */
export type Money = { readonly amount: bigint; readonly currency: Currency };

/**
 * The largest amount of one transaction, in minor units: far below 2^53, so JSON carries it whole.
 */
export const amountMax = 999_999_999_999n;

/**
 * An account's name, `<owner>:<purpose>`; a provider's owner has a dot, which no partner's id has.
 */
export type Account = Brand<string, 'Account'>;

/** One double entry in the form of a transfer: it balances by construction, for any amount. */
export type Entry = { readonly debit: Account; readonly credit: Account; readonly money: Money };

/** Who charges, as the list of providers names it (libs/providers). Part of accounts' names. */
export type ProviderName = string;

/**
 * Whose money moves, and from where: a provider's charge, or the partner's own funds when absent.
 */
export type Movement = {
  readonly partnerId: PartnerId;
  readonly money: Money;
  readonly provider?: ProviderName | undefined;
};
