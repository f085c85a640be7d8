import { count } from '@triplock/command';
import {
  describeInbox,
  describeLedger,
  describeLifetime,
  describeWebhook,
  promiseOneEffect,
  untilDelivered,
} from '../effects.ts';
import { paymentKinds, type PaymentKind } from '@triplock/payments';
import { pauseAt } from '../faults.ts';
import {
  askAgain,
  newOrder,
  promiseOneRecord,
  promiseReplay,
  promiseReused,
  recordsOf,
  reportAnswer,
  send,
  sendFirst,
  type Accepted,
  type Order,
} from '../orders.ts';
import { idOf, type Answer } from '../partner.ts';
import { FaultDidNotFire, fired, promised } from '../promises.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import type { System } from '../system.ts';

/** A partner that lost the answer asks again, and one that mixes up its keys gets a 422. */
export const retry: Scenario = {
  name: 'retry',
  failure: 'a partner sends the same payment again',
  absorbedBy: 'guard 1: the claim knows the request, and its answer is made anew of it',
  run: sendAgain,
};

/** Every kind of payment is sent twice: the guards know it by its id alone, whatever it is. */
async function sendAgain(system: System): Promise<Observation> {
  const seen: Observation[] = [];
  for (const kind of paymentKinds) seen.push(await sendOneAgain(system, kind));
  const [one] = seen;
  return { ...one!, ids: seen.flatMap(({ ids }) => ids) };
}

async function sendOneAgain(system: System, kind: PaymentKind): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'retry', kind));
  const { again, other } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const seen = await untilDelivered(system, first.id);
  promiseOneEffect(first.id, seen, kind);
  const records = await promiseOneRecord(system, first);
  const claim = await system.claims.look(first.id);
  const left = describeLifetime(claim);
  const bytes = Buffer.byteLength(again.body);
  return {
    ids: [first.id],
    guards: {
      claims: `gave the retry the same ${bytes} bytes, refused the other; the claim ${left}`,
      ledger: `never saw them: ${records}, ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** Guard 1 remembers a key for 24 hours; the ledger remembers it for ever. */
export const claimExpired: Scenario = {
  name: 'claim-expired',
  failure: 'a partner sends the same payment again after its claim has expired',
  absorbedBy: 'guard 2: the same key is the same id, and its row is there',
  run: sendAfterExpiry,
};

async function sendAfterExpiry(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claim-expired'));
  const { id } = first;
  await untilDelivered(system, id);
  // What 24 hours do, in a millisecond.
  fired('there was no claim to expire', await system.claims.expire(id));
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report('its claim has expired');

  const { again, other, unsure } = await askAgain(system, first);
  const same = again.status === first.answer.status && again.body === first.answer.body;
  promised('a late retry gets the same answer', same, { ids: [id], saw: again });
  promiseReused(first, other);

  const { records } = await recordsOf(system, first);
  const rightful = records.length <= 2 + first.unsure + unsure;
  promised('a late retry is one record more at most', rightful, { ids: [id], saw: records });
  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  // A gateway that met a loss within the last day asks the ledger before it claims.
  const asked = again.replayed ? 'asked the ledger first' : 'claimed it as new';
  return {
    ids: [id],
    guards: {
      claims: `had nothing left of it and ${asked}: ${count(records.length, 'Kafka record')}`,
      ledger: `knows the id for ever: ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** Two threads of a partner send the same payment in the same moment. */
export const twoAtOnce: Scenario = {
  name: 'two-at-once',
  failure: 'two identical requests arrive at the same time',
  absorbedBy: 'guard 1: one claims; the other gets 409, and then the same answer',
  run: sendTwice,
};

/** Long enough for the second to arrive, and well within the gateway's 3 s. */
const pauseMs = 1_000;

/** On a machine so busy that the second came late, or the first ran out of its time. */
const attemptsMax = 5;

async function sendTwice(system: System): Promise<Observation> {
  const { first, refused } = await meet(system);
  const { id } = first;
  reportAnswer(system, 'one', first.answer);
  reportAnswer(system, 'the other', refused);
  const patient = (refused.retryAfterSeconds ?? 0) >= 1;
  promised('a 409 says when to come again', patient, { ids: [id], saw: refused });
  const { answer: again } = await send(system, first);
  reportAnswer(system, 'the other again', again);
  promiseReplay(first, again);

  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  const records = await promiseOneRecord(system, first);
  return {
    ids: [id],
    guards: {
      claims: '1 claimed; 1 was told to wait, and then given the same bytes',
      ledger: `saw one request: ${records}, ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

type Meeting = { first: Accepted; refused: Answer };

/** Sends pairs until two of them met: one in flight, the other at its door. */
async function meet(system: System): Promise<Meeting> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const order = newOrder(system, 'two-at-once');
    const { partner, key } = order;
    system.report(`${partner.id} sends ${key} twice at once; the first to claim is held for 1 s`);
    const met = await sendTwo(system, order);
    if (met !== undefined) return met;
    system.report('they did not meet: this machine is busy; once more with another key');
  }
  throw new FaultDidNotFire('no two requests were at work at once');
}

async function sendTwo(system: System, order: Order): Promise<Meeting | undefined> {
  const { partner, key, body } = order;
  const sentAt = new Date();
  const site = { service: 'ingest-gateway', point: 'gateway.claimed', pauseMs } as const;
  const answers = await pauseAt(system, site, () =>
    Promise.all([partner.pay(key, body), partner.pay(key, body)]),
  );
  const statuses = answers.map(({ status }) => status);
  const rightful = statuses.every((status) => [202, 409, 503].includes(status));
  promised('two at once get 202, 409 or 503', rightful, { ids: [key], saw: answers });
  const anew = answers.filter(({ status, replayed }) => status === 202 && !replayed);
  promised('of two at once one at most is new', anew.length <= 1, { ids: [key], saw: answers });
  const answer = answers.find(({ status }) => status === 202);
  const refused = answers.find(({ status }) => status === 409);
  if (answer === undefined || refused === undefined) return undefined;
  return { first: { ...order, id: idOf(answer), answer, sentAt, unsure: 0 }, refused };
}
