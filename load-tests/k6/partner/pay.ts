import { sleep } from 'k6';
import http, { type RefinedBatchRequest, type RefinedResponse } from 'k6/http';
import type { Counter } from 'k6/metrics';
import { settings, tallies } from './scenario.ts';

/**
 * An order that was accepted: the id it got, and the answer's bytes, which a replay must repeat.
 */
export type Accepted = { order: Order; id: string; bytes: string };

/** What a payment may say besides its amount. */
export type PaymentWish = {
  partner?: string;
  amount?: number;
  payment_method?: string;
  description?: string;
  metadata?: Record<string, string>;
};

/** The n-th payment of a run: amounts differ, so that a sum shows a lost one. */
export function paymentOf(n: number, wish: PaymentWish = {}): Order & { amount: number } {
  const { partner = 'acme', amount = 100 + (n % 9_900), ...rest } = wish;
  const key = `load-${settings.run}-${n}`;
  const body = JSON.stringify({ amount, currency: 'EUR', reference: key, ...rest });
  return { partner, path: '/v1/payments', key, body, amount };
}

/** Every text of a payment at its longest: 45 KB of UTF-8, in which each character takes four. */
export const longest: PaymentWish = (() => {
  const long = (characters: number) => '𝄞'.repeat(characters);
  const keys = Array.from({ length: 20 }, (_, at) => `${long(38)}${10 + at}`);
  const metadata = Object.fromEntries(keys.map((key) => [key, long(500)]));
  return { description: long(500), metadata };
})();

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
type Counters = Record<
  'accepted' | 'acceptedAmount' | 'unknown' | 'unknownAmount' | 'refused',
  Counter
> & { tooMuch?: Counter };

const refundCounters: Counters = {
  accepted: tallies.refundsAccepted,
  acceptedAmount: tallies.refundsAcceptedAmount,
  unknown: tallies.refundsUnknown,
  unknownAmount: tallies.refundsUnknownAmount,
  refused: tallies.refundsRefused,
};

/**
 * Pays each order by one request, all at once. A 429 is taken for an answer, and a 503 that says
 * so: nothing was written.
 */
export function payImpatiently(orders: readonly (Order & { amount: number })[]): void {
  tallies.asked.add(orders.length);
  for (const [at, answer] of sendAll(orders).entries()) {
    const tookMs = noteBurst(answer);
    if (isTurnedAway(answer)) tallies.turnedAway.add(1);
    else note(orders[at]!, { answer, tookMs, counters: tallies });
  }
}

/**
 * As many who pay by the same request at once: one of them is the payment, whoever it is, and each
 * other a duplicate. It is asked for once.
 */
export function payWithEverybody(order: Order & { amount: number }, times: number): void {
  tallies.asked.add(1);
  for (const answer of sendAll(Array.from({ length: times }, () => order))) {
    const tookMs = noteBurst(answer);
    if (answer.status !== 202 || isReplay(answer)) noteDuplicate(answer, answer.body ?? '');
    else note(order, { answer, tookMs, counters: tallies });
  }
}

/** From when it was to be sent until its answer was there, its connection included. */
function noteBurst({ timings }: Answer): number {
  const tookMs = timings.blocked + timings.connecting + timings.duration;
  tallies.burstMs.add(tookMs);
  return tookMs;
}

function isTurnedAway({ status, body }: Answer): boolean {
  return status === 429 || (status === 503 && /nothing was done/i.test(body ?? ''));
}

/** Pays, and asks again with the same key until the answer is clear. */
export function pay(order: Order & { amount: number }): Accepted | undefined {
  tallies.asked.add(1);
  return insist(order, tallies);
}

/** Gives back, in the same way. */
export function refund(order: Order & { amount: number }): Accepted | undefined {
  tallies.refundsAsked.add(1);
  return insist(order, refundCounters);
}

/**
 * Asks for more back than is left, in the same way: it is refused where that is known at once, and
 * accepted, to fail, where it is not.
 */
export function refundTooMuch(order: Order & { amount: number }): void {
  tallies.refundsAsked.add(1);
  insist(order, { ...refundCounters, tooMuch: tallies.refundsTooMuch });
}

// As a patient partner does: longer than the lease of a gateway that died with the key in hand.
const patienceMs = 45_000;

function insist(order: Order & { amount: number }, counters: Counters): Accepted | undefined {
  const began = Date.now();
  let answer = send(order);
  while (mayChange(answer) && Date.now() - began < patienceMs) {
    sleep(retryAfter(answer));
    answer = send(order);
  }
  return note(order, { answer, tookMs: Date.now() - began, counters });
}

function note(
  order: Order & { amount: number },
  { answer, tookMs, counters }: { answer: Answer; tookMs: number; counters: Counters },
): Accepted | undefined {
  if (answer.status === 202) {
    counters.accepted.add(1);
    counters.acceptedAmount.add(order.amount);
    tallies.acceptMs.add(tookMs);
    return { order, id: answer.json('id') as string, bytes: answer.body ?? '' };
  }
  if (mayChange(answer)) {
    counters.unknown.add(1);
    counters.unknownAmount.add(order.amount);
  } else if (counters.tooMuch && answer.status === 400 && answer.body?.includes('"#/amount"')) {
    counters.tooMuch.add(1);
  } else {
    counters.refused.add(1);
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
  return note(order, { answer: first, tookMs: Date.now() - began, counters: tallies });
}

const triesMax = 20;

/** Sends an accepted order again, as it was, until it is answered by what was answered before. */
export function repeat(accepted: Accepted): void {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const answer = send(accepted.order);
    noteDuplicate(answer, accepted.bytes);
    if (answer.status !== 409) return;
    sleep(retryAfter(answer));
  }
}

/** Uses an accepted order's key for another body, which must be refused. */
export function reuse({ order }: Accepted): void {
  const body = JSON.stringify({ amount: 1, currency: 'EUR', reference: `not ${order.key}` });
  tallies.otherBodies.add(1);
  if (send({ ...order, body }).status === 422) tallies.otherBodiesRefused.add(1);
}

/** Notes what a request came to that had been sent before, in those very bytes. */
function noteDuplicate(answer: Answer, bytes: string): void {
  tallies.duplicates.add(1);
  if (answer.status === 409) tallies.duplicatesCaught.add(1);
  else if (answer.status !== 202) tallies.duplicatesUnanswered.add(1);
  else if (answer.body !== bytes) tallies.duplicatesAltered.add(1);
  else if (isReplay(answer)) tallies.duplicatesCaught.add(1);
  else tallies.duplicatesPassed.add(1);
}

/** Waits until a payment is final, for a few seconds at most, and says how it ended. */
export function stateOf(partner: string, payment: string): string {
  const path = `/v1/payments/${payment}`;
  const n = writeAsked({ partner, path, kind: 'read', method: 'GET' });
  const answer = http.get(settings.gateways[0]! + path, {
    headers: { authorization: `Bearer ${settings.apiKeys[partner]}`, prefer: 'wait=20' },
    timeout: '25s',
    responseType: 'text',
    tags: { name: '/v1/payments/{id}' },
  });
  writeAnswered(n, answer);
  return answer.status === 200 ? (answer.json('status') as string) : `${answer.status}`;
}

/** A request that changes something, its body as it is sent, under its idempotency key. */
export type Order = { partner: string; path: string; key: string; body: string };

/** An answer with its body as text. */
export type Answer = RefinedResponse<'text'>;

// Above the gateway's own 3 s, so that what it says in time is heard.
const timeout = '10s';

let sent = 0;

/** Sends it once. */
export function send(order: Order): Answer {
  return sendAll([order])[0]!;
}

/** Sends them at once, each on a connection of its own, and to the gateways in turn. */
export function sendAll(orders: readonly Order[]): Answer[] {
  const numbers = orders.map((order) => {
    const kind = order.path.endsWith('/refunds') ? 'refund' : 'payment';
    return writeAsked({ ...order, kind, method: 'POST' });
  });
  const answers = http.batch(orders.map(requestOf));
  for (const [at, answer] of answers.entries()) {
    writeAnswered(numbers[at]!, answer);
    tally(answer);
  }
  return answers;
}

let written = 0;

/** Before it is sent: what has no line was never asked. Returns its number in this run. */
function writeAsked(request: Partial<Order> & { kind: string; method: string }): string {
  written += 1;
  const n = `${__VU}-${written}`;
  if (settings.writesHistory) {
    console.log(JSON.stringify({ what: 'asked', n, at: Date.now(), ...request }));
  }
  return n;
}

function writeAnswered(n: string, answer: Answer): void {
  if (!settings.writesHistory) return;
  const { status, body, headers, error } = answer;
  const seconds = headers['Retry-After'];
  const end =
    status === 0
      ? { what: 'unanswered', why: error }
      : { what: 'answered', status, body: body ?? '' };
  const line = {
    ...end,
    n,
    at: Date.now(),
    ...(isReplay(answer) && { replayed: true }),
    ...(seconds !== undefined && { retryAfter: Number(seconds) }),
  };
  console.log(JSON.stringify(line));
}

function requestOf({ partner, path, key, body }: Order): RefinedBatchRequest<'text'> {
  sent += 1;
  return {
    method: 'POST',
    url: settings.gateways[sent % settings.gateways.length]! + path,
    body,
    params: {
      timeout,
      responseType: 'text',
      headers: {
        authorization: `Bearer ${settings.apiKeys[partner]}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      // With the id of its payment in it each refund would be a series of its own.
      tags: { name: path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}') },
    },
  };
}

function tally(answer: Answer): void {
  if (isReplay(answer)) tallies.replayed.add(1);
  else if (answer.status === 409) tallies.inFlight.add(1);
  else if (answer.status === 422) tallies.reused.add(1);
  else if (answer.status === 429) tallies.limited.add(1);
  else if (answer.status === 0) tallies.unanswered.add(1);
}

/** Whether it is the answer of an earlier request. */
export function isReplay(answer: Answer): boolean {
  return answer.headers['Idempotency-Replayed'] === 'true';
}

/** Whether the same request may get another answer later: none came, or it says so. */
function mayChange({ status }: Answer): boolean {
  return status === 0 || status === 409 || status === 429 || status >= 500;
}

/** How long an answer asks to wait, in seconds. */
export function retryAfter(answer: Answer): number {
  const asked = Number(answer.headers['Retry-After']);
  return asked > 0 ? asked : 0.2;
}
