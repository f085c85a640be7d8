import { sleep } from 'k6';
import type { Counter } from 'k6/metrics';
import { noteDuplicate } from './note-duplicate.ts';
import { isReplay, mayChange, retryAfter, send, sendAll, type Answer, type Order } from './send.ts';
import { settings } from './settings.ts';
import { tallies } from './tallies.ts';

/**
 * An order that was accepted: the id it got, and the answer's bytes, which a replay must repeat.
 */
export type Accepted = { order: Order; id: string; bytes: string };

/** What a payment may say besides its amount. */
export type PaymentWish = { partner?: string; amount?: number; payment_method?: string };

/** The n-th payment of a run: amounts differ, so that a sum shows a lost one. */
export function paymentOf(n: number, wish: PaymentWish = {}): Order & { amount: number } {
  const { partner = 'acme', amount = 100 + (n % 9_900), ...rest } = wish;
  const key = `load-${settings.run}-${n}`;
  const body = JSON.stringify({ amount, currency: 'EUR', reference: key, ...rest });
  return { partner, path: '/v1/payments', key, body, amount };
}

/** A refund; its name is part of its key. */
export function refundOf(name: string, wish: { partner: string; payment: string; amount: number }) {
  const { partner, payment, amount } = wish;
  const path = `/v1/payments/${payment}/refunds`;
  return {
    partner,
    path,
    key: `load-${settings.run}-${name}`,
    body: JSON.stringify({ amount }),
    amount,
  };
}

/** Which counters an order is counted by. */
type Book = Record<
  'accepted' | 'acceptedAmount' | 'unknown' | 'unknownAmount' | 'refused',
  Counter
>;

const refundBook: Book = {
  accepted: tallies.refundsAccepted,
  acceptedAmount: tallies.refundsAcceptedAmount,
  unknown: tallies.refundsUnknown,
  unknownAmount: tallies.refundsUnknownAmount,
  refused: tallies.refundsRefused,
};

/** Pays by one request, and takes a 429 for an answer, which it is: nothing was written. */
export function payImpatiently(order: Order & { amount: number }): void {
  tallies.asked.add(1);
  const began = Date.now();
  const answer = send(order);
  if (answer.status === 429) tallies.turnedAway.add(1);
  else note(order, { answer, began, book: tallies });
}

/** Pays, and asks again with the same key until the answer is clear. */
export function pay(order: Order & { amount: number }): Accepted | undefined {
  tallies.asked.add(1);
  return insist(order, tallies);
}

/** Gives back, in the same way. */
export function refund(order: Order & { amount: number }): Accepted | undefined {
  tallies.refundsAsked.add(1);
  return insist(order, refundBook);
}

// As a patient partner does: longer than the lease of a gateway that died with the key in hand.
const patienceMs = 45_000;

function insist(order: Order & { amount: number }, book: Book): Accepted | undefined {
  const began = Date.now();
  let answer = send(order);
  while (mayChange(answer) && Date.now() - began < patienceMs) {
    sleep(retryAfter(answer));
    answer = send(order);
  }
  return note(order, { answer, began, book });
}

function note(
  order: Order & { amount: number },
  { answer, began, book }: { answer: Answer; began: number; book: Book },
): Accepted | undefined {
  if (answer.status === 202) {
    book.accepted.add(1);
    book.acceptedAmount.add(order.amount);
    tallies.acceptMs.add(Date.now() - began);
    return { order, id: answer.json('id') as string, bytes: answer.body ?? '' };
  }
  if (mayChange(answer)) {
    book.unknown.add(1);
    book.unknownAmount.add(order.amount);
  } else {
    book.refused.add(1);
    console.error(`${order.path} refused: ${answer.status} ${answer.body}`);
  }
  return undefined;
}

/**
 * Pays by two requests at once that are the same to the byte. One is the payment and the other its
 * duplicate, whichever comes first.
 */
export function payTwiceAtOnce(order: Order & { amount: number }): Accepted | undefined {
  tallies.asked.add(1);
  const began = Date.now();
  const twins = sendAll([order, order]);
  const first = twins.find((each) => each.status === 202 && !isReplay(each));
  const other = twins.find((each) => each !== first)!;
  if (first === undefined) return insist(order, tallies);
  noteDuplicate(other, first.body ?? '');
  return note(order, { answer: first, began, book: tallies });
}
