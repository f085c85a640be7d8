import { count } from '@triplock/command';
import { deriveTxnId, type IdempotencyKey, type PartnerId, type TxnId } from '@triplock/payments';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  untilDelivered,
} from '../effects.ts';
import { bringBack, killAt, pauseAllDuring, pauseDuring } from '../faults.ts';
import { newOrder, sendFirst, type Order } from '../orders.ts';
import { fired, promised, until } from '../promises.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import type { System } from '../system.ts';

/** After a time-out this is the only question that a partner has. */
export const wasItPaid: Scenario = {
  name: 'was-it-paid',
  failure:
    'gateways die before they answer, claims are lost, workers and Kafka stand still, and the partner asks what became of its keys',
  absorbedBy: 'guard 1 and guard 2: accepted is witnessed, never accepted is proven, or it is 503',
  run: askAboutKeys,
};

async function askAboutKeys(system: System): Promise<Observation> {
  const [unanswered, unsent, retold, unheard] = ['answer', 'append', 'claims', 'kafka'].map(
    (lost) => newOrder(system, `was-it-paid-${lost}`),
  ) as [Order, Order, Order, Order];
  await dieAt(system, 'gateway.produced', unanswered);
  const unsentAt = await dieAt(system, 'gateway.claimed', unsent);
  const paid = await untilKnown(system, unanswered);
  promiseAccepted(unanswered, paid);
  system.report(`its record was in Kafka: ${paid.status} after ${count(paid.unsure, '503')}`);

  const withoutWorkers = await pauseDuring(system, 'ledger-worker', async () => {
    await sendFirst(system, retold);
    const { command, keys } = await system.claims.forget();
    system.report(`${command}: ${count(keys, 'key')} gone, and every worker stands still`);
    return ask(retold);
  });
  promiseUnknown(retold, withoutWorkers);
  promiseAccepted(retold, await untilKnown(system, retold));
  promiseUnknown(unheard, await pauseAllDuring(system, ['kafka'], () => ask(unheard)));
  system.report('asked while workers, and then Kafka, stood still: 503, nobody can know');

  // What arrived before is what the answer is about, so it has to be of after that.
  const never = await untilKnown(system, unsent, unsentAt);
  promiseNeverAccepted(unsent, never);
  promiseNeverAccepted(unheard, await untilKnown(system, unheard));
  system.report(`claimed, and never in Kafka: never_accepted, after ${count(never.unsure, '503')}`);
  return whatIsThere(system, { accepted: [unanswered, retold], never: [unsent, unheard] });
}

/** Sends an order to a gateway that dies over it, and brings that back; tells when it was sent. */
async function dieAt(
  system: System,
  point: 'gateway.produced' | 'gateway.claimed',
  order: Order,
): Promise<Date> {
  let wasAnswered = true;
  const died = await killAt(system, { service: 'ingest-gateway', point }, async () => {
    const { partner, key, body } = order;
    await partner.pay(key, body).catch(() => (wasAnswered = false));
  });
  fired('the partner got an answer', !wasAnswered);
  const sentAt = new Date();
  system.report(`${died.name} killed itself at ${point}; the partner has no answer`);
  await bringBack(system, died);
  return sentAt;
}

/** What the system says of a key; without a status it is a 503. */
type Told = { status?: 'accepted' | 'in_flight' | 'never_accepted'; id?: TxnId; as_of?: string };

async function ask({ partner, key, kind = 'payment' }: Order): Promise<Told> {
  const answer = await partner.askAbout(kind, key);
  const told = JSON.parse(answer.body) as Told & { status: unknown };
  promised('what became of a key is told, or is unknown', [200, 503].includes(answer.status), {
    ids: [key],
    saw: answer,
  });
  return answer.status === 200 ? told : {};
}

/** Asks until it is known, and what is never accepted as of this time at least. */
function untilKnown(
  system: System,
  order: Order,
  asOf = new Date(0),
): Promise<Told & { unsure: number }> {
  let unsure = 0;
  return until({
    what: `what became of ${order.key}`,
    signal: system.signal,
    check: async () => {
      system.progress(`asking what became of ${order.key}`);
      const told = await ask(order);
      if (told.status === undefined) unsure += 1;
      const isEarly = told.as_of !== undefined && new Date(told.as_of) <= asOf;
      return (
        told.status !== undefined && told.status !== 'in_flight' && !isEarly && { ...told, unsure }
      );
    },
  });
}

/** Nothing is said of a key as long as nobody can know. */
function promiseUnknown({ key }: Order, told: Told): void {
  const isUnknown = told.status === undefined;
  promised('while nobody can know nothing is said', isUnknown, { ids: [key], saw: told });
}

function promiseAccepted(order: Order, told: Told): void {
  const holds = told.status === 'accepted' && told.id === idOf(order);
  promised('what was accepted is told as that', holds, { ids: [idOf(order)], saw: told });
}

function promiseNeverAccepted(order: Order, told: Told): void {
  const holds = told.status === 'never_accepted';
  promised('what was never accepted is told as that', holds, { ids: [order.key], saw: told });
}

const idOf = ({ kind = 'payment', partner, key }: Order) =>
  deriveTxnId(kind, partner.id as PartnerId, key as IdempotencyKey);

async function whatIsThere(
  system: System,
  orders: Record<'accepted' | 'never', readonly Order[]>,
): Promise<Observation> {
  const ids = orders.accepted.map(idOf);
  const seen = await Promise.all(ids.map((id) => untilDelivered(system, id)));
  for (const [at, id] of ids.entries()) promiseOneEffect(id, seen[at]!);
  for (const order of orders.never) {
    const { ledger } = await lookAtPayment(system, idOf(order));
    promised('what was never accepted has no effect', ledger.length === 0, {
      ids: [idOf(order)],
      saw: ledger,
    });
  }
  const each = (describe: (one: (typeof seen)[number]) => string) =>
    [...new Set(seen.map(describe))].join(' and ');
  return {
    ids,
    guards: {
      claims: 'a completed claim is a witness; one in flight may append for 30 s more',
      ledger: `each that was accepted is there: ${each(describeLedger)}; none of the others`,
      inbox: each(describeInbox),
      webhook: each(describeWebhook),
    },
  };
}
