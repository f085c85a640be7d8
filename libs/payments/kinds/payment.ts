import type { Account, Entry, Movement } from '../money.ts';
import type { KindOfPayment } from './kind.ts';

/** A payment, which may be charged to a card. */
export const payment = {
  entryOf: paidIn,
  settlement: 'paid',
  ends: {
    succeeded: 'payment.succeeded',
    failed: 'payment.failed',
    captured: 'payment.captured',
    canceled: 'payment.canceled',
  },
  steps: [
    'payment.requires_action',
    'payment.authorized',
    'payment.disputed',
    'payment.key_conflict',
  ],
} as const satisfies KindOfPayment;

/**
 * Moves into the partner's payable funds what the provider collected and owes us, or, for a book
 * transfer, what the partner itself cleared.
 */
export function paidIn({ partnerId, money, provider }: Movement): Entry {
  return {
    debit: account(provider === undefined ? partnerId : `provider.${provider}`, 'clearing'),
    credit: account(partnerId, 'payable'),
    money,
  };
}

/** The account of an owner: what is cleared for it, or what is owed to it. */
export function account(owner: string, purpose: 'clearing' | 'payable'): Account {
  return `${owner}:${purpose}` as Account;
}
