import type { TxnId } from '@triplock/payments';
import { promised } from '../broken-promise.ts';
import { idOf, newKey, type Answer, type Partner, type PaymentBody } from '../partner.ts';
import type { System } from '../system.ts';
import { formatMoney } from '../terminal/money.ts';
import { formatSpan } from '../terminal/words.ts';
import { until } from '../until.ts';

/** A payment of one partner that a scenario is about. */
export type Order = { partner: Partner; key: string; body: PaymentBody };

/** A payment that was accepted, and when it was first sent. */
export type Accepted = Order & { id: TxnId; answer: Answer; sentAt: Date };

/** An order that nobody has seen before. */
export function newOrder(system: System, scenario: string): Order {
  const body = { amount: 2_500, currency: 'EUR', reference: scenario };
  return { partner: system.partner('acme'), key: newKey(scenario), body };
}

/** Sends an order, and tells. */
export async function send(system: System, order: Order): Promise<Answer> {
  const answer = await settledAnswer(system, order);
  const { partner, key, body } = order;
  const money = formatMoney(body.amount, body.currency);
  system.tell(`${partner.id} pays ${money}, Idempotency-Key ${key}`);
  tellAnswer(system, answer);
  return answer;
}

/** Sends an order for the first time. */
export async function sendFirst(system: System, order: Order): Promise<Accepted> {
  const sentAt = new Date();
  const answer = await send(system, order);
  const evidence = { ids: [order.key], saw: answer };
  promised('a new payment is answered 202', answer.status === 202, evidence);
  return { ...order, id: idOf(answer), answer, sentAt };
}

/** Tells an answer in one line. */
export function tellAnswer(system: System, answer: Answer): void {
  const notes = [
    answer.replayed ? 'Idempotency-Replayed: true' : undefined,
    answer.retryAfterSeconds === undefined ? undefined : `Retry-After: ${answer.retryAfterSeconds}`,
    codeOf(answer),
  ].filter((note) => note !== undefined);
  const said = [`${answer.status} in ${formatSpan(answer.tookMs)}`, ...notes].join(', ');
  system.tell(`→ ${said}`);
}

/** A retry gets the very bytes of the first answer. */
export function promiseReplay({ answer: first, id }: Accepted, retry: Answer): void {
  const evidence = { ids: [id], saw: { first, retry } };
  const same = retry.status === first.status && retry.body === first.body;
  promised('a retry is answered with the same status and bytes', same, evidence);
  promised(
    'a retry is answered with the same Location',
    retry.location === first.location,
    evidence,
  );
  promised('a replay says Idempotency-Replayed: true', retry.replayed, evidence);
}

/** 503 means "ask again": that is no answer yet, and every client has to do it. */
export function settledAnswer(
  system: System,
  { partner, key, body }: Order,
  onUnavailable: (answer: Answer) => void = () => undefined,
): Promise<Answer> {
  return until({
    what: `an answer other than 503 for ${key}`,
    signal: system.signal,
    check: async () => {
      const answer = await partner.pay(key, body);
      if (answer.status === 503) onUnavailable(answer);
      return answer.status !== 503 && answer;
    },
  });
}

function codeOf({ status, body }: Answer): string | undefined {
  if (status < 400) return undefined;
  return (JSON.parse(body) as { code?: string }).code;
}
