import { type EventType, type TxnId, eventIdOf } from '@triplock/payments';
import type { Answered, Asked, HistoryEvent, WebhookArrived } from '../history.ts';
import { ModelSystem, type Wish } from './a-history.ts';

export const order = (n: number, more = {}): Wish => ({
  partner: 'acme',
  kind: 'payment',
  key: `order-${n}`,
  body: { amount: n * 1_000, currency: 'EUR', reference: `order-${n}`, ...more },
});
const refund = (key: string, body: Wish['body']): Wish => ({
  partner: 'acme',
  kind: 'refund',
  key,
  of: 'order-5',
  body,
});
export const retried = order(1);
export const plain = order(4);
export const refunded = order(5);
export const raced = { ...order(3), body: { amount: 7, currency: 'EUR' } };

/** A day of two partners on which a little of everything happened, and nothing that may not. */
export function aTrueHistory(): HistoryEvent[] {
  const system = new ModelSystem();
  const settleAll = () => system.ledger.forEach((_, id) => system.settle(id));

  const [first, twin] = [system.ask(retried), system.ask(retried)];
  system.reach(first);
  system.reach(twin);
  system.answer(twin);
  system.work(first, 'accepted');
  system.answer(first);
  system.read('acme', retried);
  system.send(retried);
  system.send(order(1, { amount: 1_001 }));
  system.send({ ...order(1, { currency: 'JPY' }), partner: 'globex' });
  system.send({ ...plain, body: { ...plain.body, amount: 0 } });
  system.send(order(6, { reference: '4242-4242-4242-4242' }));
  system.send(plain);
  system.send(refunded);
  settleAll();
  for (const each of [refund('r-1', { amount: 2_000 }), refund('r-2', {})]) system.send(each);
  settleAll();
  system.send(refund('r-3', { amount: 4_000 }));
  system.read('globex', retried);

  system.fault('gateway-1 killed');
  const card = order(2, { payment_method: 'pm_card_declined' });
  system.send(card, 'dies-after');
  system.send(card);
  system.pass(31_000);
  system.send(card);

  const overtaken = system.ask(raced);
  system.reach(overtaken);
  system.fault('claims forgotten');
  system.forgetClaims();
  const overtaking = system.ask({ ...raced, body: { amount: 8, currency: 'EUR' } });
  system.reach(overtaking);
  for (const n of [overtaken, overtaking]) system.work(n, 'accepted');
  for (const n of [overtaken, overtaking]) system.answer(n);

  const early = system.ask(order(7));
  system.reach(early);
  system.forgetClaims();
  const doomed = system.ask(order(7, { amount: 7_001 }));
  system.reach(doomed);
  system.work(early, 'accepted');
  system.work(doomed, 'dies-before');
  for (const n of [early, doomed]) system.answer(n);
  // Refused: the claim of the one that died keeps its fingerprint.
  system.send(order(7));

  settleAll();
  for (const webhook of [...system.webhooks, system.webhooks[0]!]) system.deliver(webhook);
  const asked = system.requests.filter((each) => each !== undefined);
  for (const each of [...asked, retried, refunded]) system.read(each.partner, each);
  system.over();
  return system.events;
}

/**
 * A payment of 9 is authorised, 6 of it captured and given back, and it is disputed twice. Webhooks
 * of one type may lack, the read that comes last tell something else, and more go back.
 */
export function aCapturedHistory(
  without?: EventType,
  last = 'captured',
  refunded = 6,
): HistoryEvent[] {
  const system = new ModelSystem();
  const body = { amount: 9, currency: 'EUR' };
  const partner = 'acme';
  const send = (wish: Omit<Wish, 'partner'>) =>
    system.requests[system.send({ partner, ...wish })]!.id;
  const of = 'held';
  const id = send({ kind: 'payment', key: of, body });
  const captureId = send({ kind: 'capture', key: 'c-1', of, body: { amount: 6 } });
  const refundId = send({ kind: 'refund', key: 'r-1', of, body: { amount: refunded } });
  const payment = { id, object: 'payment', ...body, amount_captured: 6 };
  const [follows, currency] = [{ payment: id, status: 'succeeded' }, 'EUR'];
  const capture = { id: captureId, object: 'capture', ...follows, amount: 6, currency };
  const refund = { id: refundId, object: 'refund', ...follows, amount: refunded, currency };
  const disputed = (dispute: string) => ({
    ...payment,
    status: 'captured',
    dispute: { id: dispute, amount: 1, reason: 'general' },
  });
  const told: [EventType, { id: TxnId; [field: string]: unknown }][] = [
    ['payment.authorized', { ...payment, status: 'authorized' }],
    ['capture.succeeded', capture],
    ['payment.captured', { ...payment, status: 'captured' }],
    ['payment.disputed', disputed('du_1')],
    ['payment.disputed', disputed('du_2')],
    ['refund.succeeded', refund],
  ];
  told.forEach(([type, data], at) => {
    const hook = { type, sequence: at + 1, data };
    const said = { partner, id: eventIdOf(type, data), body: JSON.stringify(hook) };
    if (type !== without) system.deliver(said);
  });
  system.pass(2_000);
  const shown = { ...payment, status: last, amount_refunded: refunded };
  const n = system.askRead(partner, id, 'payment');
  system.replies.set(n, { status: 200, body: JSON.stringify(shown) });
  system.answer(n);
  const over = { what: 'over', at: 9, delivered: true, complete: false } as const;
  return [...system.events, over];
}

/** The n-th request under a key, from 0. */
export function asked(events: HistoryEvent[], { partner, kind, key }: Wish, n = 0): Asked {
  const all = events.filter((each) => each.what === 'asked' && each.kind === kind) as Asked[];
  return all.filter((each) => each.partner === partner && each.key === key)[n]!;
}

function answerOf(events: HistoryEvent[], { n }: Asked): Answered {
  return events.find((each) => each.what === 'answered' && each.n === n) as Answered;
}

export function answered(events: HistoryEvent[], wish: Wish, n = 0): Answered {
  return answerOf(events, asked(events, wish, n));
}

type Json = Record<string, unknown>;
const json = (text: string) => JSON.parse(text) as Json;

/** Changes members of a JSON body; nested ones of a webhook by `data`. */
export function change(event: { body: string }, members: Json): void {
  const { data, ...rest } = members;
  const old = json(event.body);
  const inner = data === undefined ? {} : { data: { ...(old['data'] as Json), ...(data as Json) } };
  event.body = JSON.stringify({ ...old, ...rest, ...inner });
}

/** The id that a key's 202 gave. */
export function idOf(events: HistoryEvent[], wish: Wish): string {
  const all = events.filter(
    (each) => each.what === 'answered' && each.status === 202,
  ) as Answered[];
  const own = all.find(({ n }) => {
    const request = events.find((each) => each.what === 'asked' && each.n === n) as Asked;
    return (
      request.key === wish.key && request.kind === wish.kind && request.partner === wish.partner
    );
  });
  return json(own!.body)['id'] as string;
}

export function webhooks(events: HistoryEvent[], wish?: Wish): WebhookArrived[] {
  const all = events.filter((each) => each.what === 'webhook');
  if (wish === undefined) return all;
  const id = idOf(events, wish);
  return all.filter(({ body }) => (json(body)['data'] as Json)['id'] === id);
}

/** Answers to reads of a transaction by a partner, as a rule its own, in their order. */
export function reads(events: HistoryEvent[], wish: Wish, by: string = wish.partner): Answered[] {
  const id = idOf(events, wish);
  const all = events.filter((each) => each.what === 'asked' && each.kind === 'read') as Asked[];
  return all
    .filter(({ path, partner }) => path.endsWith(id) && partner === by)
    .map((each) => answerOf(events, each));
}

/** One more request at the end of the run, with its answer. */
export function more(events: HistoryEvent[], wish: Wish, answer: Partial<Answered>): void {
  const request = { ...asked(events, plain, 1), n: 9_000, key: wish.key };
  const end = { what: 'answered', at: request.at + 1, n: 9_000, body: '{}', ...answer };
  events.splice(0, 0, request, end as Answered);
}

/** Without a request and whatever ended it. */
export function without(events: HistoryEvent[], ...requests: Asked[]): HistoryEvent[] {
  const gone = new Set(requests.map(({ n }) => n));
  return events.filter((each) => !('n' in each && gone.has(each.n)));
}

export const random = 'f47ac10b-58cc-4372-a567-0e02b2c3d479';
export const [given, rest, tooMuch] = [refund('r-1', {}), refund('r-2', {}), refund('r-3', {})];
