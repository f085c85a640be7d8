import { count, formatSpan } from '@triplock/command';
import { transactionContracts } from '@triplock/contracts';
import { formatMoney, type FollowUpKind, type PaymentKind, type TxnId } from '@triplock/payments';
import { readRecords, type RecordsSeen } from '@triplock/inspect';
import {
  type Answer,
  type FollowUpBody,
  idOf,
  newKey,
  type Partner,
  type PaymentBody,
} from './partner.ts';
import { promised, until } from './promises.ts';
import type { System } from './system.ts';

/** A payment of one partner that a scenario is about. */
export type Order = { partner: Partner; key: string; body: PaymentBody; kind?: PaymentKind };

/**
 * A payment that was accepted. Each of the `unsure` answers before was a 503, after which nobody
 * knows whether the record is in Kafka: so many duplicates of it are rightful.
 */
export type Accepted = Order & { id: TxnId; answer: Answer; sentAt: Date; unsure: number };

/** An order that nobody has seen before; of another kind as its contract shows one. */
export function newOrder(system: System, scenario: string, kind: PaymentKind = 'payment'): Order {
  const [example] = transactionContracts[kind].examples;
  const ours = { amount: 2_500, currency: 'EUR', reference: scenario };
  const body = kind === 'payment' ? ours : (example as PaymentBody);
  return { partner: system.partner('acme'), key: newKey(scenario), body, kind };
}

/** The same for a card, one that the provider accepts unless told otherwise. */
export function newCardOrder(
  system: System,
  scenario: string,
  card:
    | 'pm_card_visa'
    | 'pm_card_chargeDeclinedInsufficientFunds'
    | 'pm_card_authenticationRequired'
    | 'pm_card_createDispute' = 'pm_card_visa',
): Order {
  const order = newOrder(system, scenario);
  return { ...order, body: { ...order.body, payment_method: card } };
}

/** The same key with another amount: a mistake of the partner. */
export function otherBody(order: Order): Order {
  return { ...order, body: { ...order.body, amount: order.body.amount + 100 } };
}

/** Sends an order for the first time. */
export async function sendFirst(system: System, order: Order): Promise<Accepted> {
  const { partner, key, body } = order;
  const sentAt = new Date();
  const { answer, unsure } = await send(system, order);
  const money = formatMoney(body.amount, body.currency);
  reportAnswer(system, `${partner.id} pays ${money} under key ${key}`, answer);
  const evidence = { ids: [key], saw: answer };
  promised('a new payment is answered 202', answer.status === 202, evidence);
  return { ...order, id: idOf(answer), answer, sentAt, unsure };
}

/** Sends an order until there is an answer to it, and tells after how many 503s. */
export function send(
  system: System,
  { partner, key, body, kind }: Order,
): Promise<{ answer: Answer; unsure: number }> {
  return untilAnswered(system, key, () => partner.pay(key, body, kind));
}

/** Asks a part of a payment back, under a key of its own; gives the refund's id. */
export function sendRefund(system: System, of: Accepted, body: FollowUpBody): Promise<TxnId> {
  return sendFollowUp(system, of, { kind: 'refund', body });
}

/** Asks for what follows a payment, under a key of its own; gives its id. */
export async function sendFollowUp(
  system: System,
  { partner, id, key: paidUnder }: Accepted,
  { kind, body }: { kind: FollowUpKind; body: FollowUpBody },
): Promise<TxnId> {
  const key = newKey(`${paidUnder}-${kind}`);
  const { answer } = await untilAnswered(system, key, () => partner.refund(id, key, body, kind));
  promised(`a ${kind} is answered 202`, answer.status === 202, { ids: [key], saw: answer });
  return idOf(answer);
}

/**
 * The same, where no so much may be left: nothing where a gateway says so at once. Whom it accepts
 * because it does not know, the ledger refuses.
 */
export async function sendRefundThatFits(
  system: System,
  { partner, id, key: paidUnder }: Accepted,
  body: FollowUpBody,
): Promise<TxnId | undefined> {
  const key = newKey(`${paidUnder}-refund`);
  const { answer } = await untilAnswered(system, key, () => partner.refund(id, key, body));
  const isTooMuch = answer.status === 400 && answer.body.includes('"#/amount"');
  const evidence = { ids: [key], saw: answer };
  promised(
    'a refund is answered 202, or fits no more',
    isTooMuch || answer.status === 202,
    evidence,
  );
  if (isTooMuch) reportAnswer(system, 'more than is left asked back', answer);
  return isTooMuch ? undefined : idOf(answer);
}

/**
 * Asks again after a 503, which means that; and behind one after a 409 too: the request that it
 * answered is still at work, or left its claim in flight until the lease ends.
 */
async function untilAnswered(system: System, key: string, ask: () => Promise<Answer>) {
  let unsure = 0;
  const answer = await until({
    what: `an answer other than 503 for ${key}`,
    signal: system.signal,
    check: async () => {
      system.progress(
        `asking the gateway${unsure === 0 ? '' : `, ${count(unsure, '503')} so far`}`,
      );
      const latest = await ask();
      if (latest.status === 503) unsure += 1;
      const isAtWork = unsure > 0 && latest.status === 409;
      return latest.status !== 503 && !isAtWork && latest;
    },
  });
  return { answer, unsure };
}

/** What a partner gets that asks twice more. */
type AskedAgain = { again: Answer; other: Answer; unsure: number };

/**
 * Sends the same again, and then another amount under its key. Tells both answers, judges neither.
 */
export async function askAgain(system: System, order: Order): Promise<AskedAgain> {
  const { answer: again, unsure } = await send(system, order);
  reportAnswer(system, 'the same again', again);
  const { answer: other } = await send(system, otherBody(order));
  reportAnswer(system, 'another amount under that key', other);
  return { again, other, unsure };
}

/** Tells what was sent and answered in one line. */
export function reportAnswer(system: System, sent: string, answer: Answer): void {
  const { status, tookMs, replayed, retryAfterSeconds: seconds } = answer;
  const notes = [
    `${status} in ${formatSpan(tookMs)}`,
    ...(replayed ? ['Idempotency-Replayed: true'] : []),
    ...(seconds === undefined ? [] : [`Retry-After: ${seconds}`]),
    ...(status < 400 ? [] : [codeOf(answer)]),
  ];
  system.report(`${sent} → ${notes.join(', ')}`);
}

/** A retry gets the very bytes of the first answer. */
export function promiseReplay({ answer: first, id }: Accepted, retry: Answer): void {
  const evidence = { ids: [id], saw: { first, retry } };
  const same = (name: 'status' | 'body' | 'location') => retry[name] === first[name];
  promised('a retry gets the same status', same('status'), evidence);
  promised('a retry gets the same bytes', same('body'), evidence);
  promised('a retry gets the same Location', same('location'), evidence);
  promised('a retry is told that it is one', retry.replayed, evidence);
}

/** The partner that mixes up its keys is told, whatever else has failed. */
export function promiseReused({ id }: Accepted, answer: Answer): void {
  const refused = answer.status === 422 && codeOf(answer) === 'idempotency_key_reused';
  const evidence = { ids: [id], saw: answer };
  promised('another body under a used key is refused by 422', refused, evidence);
}

function codeOf({ body }: Answer): string {
  return (JSON.parse(body) as { code: string }).code;
}

/** The payment's records in the topic of accepted payments. */
export function recordsOf(system: System, { id, sentAt }: Accepted): Promise<RecordsSeen> {
  return readRecords(system.accepted, id, sentAt);
}

/** Retries that guard 1 answered have appended nothing. Tells how many records there are. */
export async function promiseOneRecord(system: System, accepted: Accepted): Promise<string> {
  const { records } = await recordsOf(system, accepted);
  const evidence = { ids: [accepted.id], saw: records };
  const one = records.length >= 1 && records.length <= 1 + accepted.unsure;
  promised('one payment is one record, whatever its retries', one, evidence);
  return count(records.length, 'Kafka record');
}
