import type { Brand, PartnerId, PaymentKind } from './identity.ts';

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

/** Who may be asked to charge. */
export type ProviderName = 'stripe';

/**
 * Whose money moves, and from where: a provider's charge, or the partner's own funds when absent.
 */
export type Movement = {
  readonly partnerId: PartnerId;
  readonly money: Money;
  readonly provider?: ProviderName | undefined;
};

/**
 * What a payment moves. One of kind `payment` moves into the partner's payable funds what the
 * provider collected and owes us, or, for a book transfer, what the partner itself cleared.
 */
export function paymentEntry(kind: PaymentKind, movement: Movement): Entry {
  const { partnerId, money, provider } = movement;
  switch (kind) {
    case 'payment':
      return {
        debit: account(provider === undefined ? partnerId : `provider.${provider}`, 'clearing'),
        credit: account(partnerId, 'payable'),
        money,
      };
    default:
      return kind satisfies never;
  }
}

/** A refund moves its amount back the way its payment came. */
export function refundEntry(movement: Movement): Entry {
  const { debit, credit, money } = paymentEntry('payment', movement);
  return { debit: credit, credit: debit, money };
}

function account(owner: string, purpose: 'clearing' | 'payable'): Account {
  return `${owner}:${purpose}` as Account;
}
