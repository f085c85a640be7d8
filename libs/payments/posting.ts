import type { Brand } from './brand.ts';
import type { PartnerId } from './identity.ts';
import type { Money } from './money.ts';

/** An account's name, `<owner>:<purpose>`. */
export type Account = Brand<string, 'Account'>;

/** One double entry in the form of a transfer: it balances by construction, for any amount. */
export type Entry = { readonly debit: Account; readonly credit: Account; readonly money: Money };

/** A book transfer moves the partner's funds from what it cleared to what it may pay out. */
export function bookTransfer(partner: PartnerId, money: Money): Entry {
  return { debit: account(partner, 'clearing'), credit: account(partner, 'payable'), money };
}

function account(partner: PartnerId, purpose: 'clearing' | 'payable'): Account {
  return `${partner}:${purpose}` as Account;
}
