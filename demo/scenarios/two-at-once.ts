import { FaultDidNotFire, promised } from '../broken-promise.ts';
import { pauseAt } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { idOf, type Answer } from '../partner.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, promiseReplay, send, tellAnswer, type Accepted, type Order } from './send.ts';

/** Two threads of a partner send the same payment in the same moment. */
export const twoAtOnce: Scenario = {
  name: 'two-at-once',
  failure: 'two identical requests arrive at the same time',
  absorbedBy: 'guard 1: one claims; the other gets 409, and then the same answer',
  run,
};

/** Long enough for the second to arrive, and well within the gateway's 3 s. */
const pauseMs = 1_000;

/** On a machine so busy that the second came late, or the first ran out of its time. */
const attemptsMax = 5;

async function run(system: System): Promise<Observation> {
  const { first, refused } = await meet(system);
  const { id } = first;
  tellAnswer(system, 'one', first.answer);
  tellAnswer(system, 'the other', refused);
  const patient = (refused.retryAfterSeconds ?? 0) >= 1;
  promised('a 409 says when to come again', patient, { ids: [id], saw: refused });
  const { answer: again } = await send(system, first);
  tellAnswer(system, 'the other again', again);
  promiseReplay(first, again);

  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  const records = await promiseOneRecord(system, first);
  return {
    ids: [id],
    guards: {
      claims: '1 claimed; 1 was told to wait, and then given the same bytes',
      ledger: `saw one request: ${records}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}

type Meeting = { first: Accepted; refused: Answer };

/** Sends pairs until two of them met: one in flight, the other at its door. */
async function meet(system: System): Promise<Meeting> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const order = newOrder(system, 'two-at-once');
    const { partner, key } = order;
    system.tell(`${partner.id} sends ${key} twice at once; the first to claim is held for 1 s`);
    const met = await sendTwo(system, order);
    if (met !== undefined) return met;
    system.tell('they did not meet: this machine is busy; once more with another key');
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
