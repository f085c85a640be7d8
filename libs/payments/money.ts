import type { Brand } from './brand.ts';

/** An ISO 4217 code in upper case, e.g. `EUR`. */
export type Currency = Brand<string, 'Currency'>;

/** An amount in integer minor units (cents, yen, fils) and its currency; never a fraction. */
export type Money = { readonly amount: bigint; readonly currency: Currency };

/**
 * The largest amount of one transaction, in minor units: far below 2^53, so JSON carries it whole.
 */
export const amountMax = 999_999_999_999n;
