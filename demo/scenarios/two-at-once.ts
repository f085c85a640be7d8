import { promised } from '../broken-promise.ts';
import { pauseAt } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { idOf } from '../partner.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { count } from '../terminal/words.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, promiseReplay, settledAnswer, tellAnswer, type Accepted } from './send.ts';

/** Two threads of a partner send the same payment in the same moment. */
export const twoAtOnce: Scenario = {
  name: 'two-at-once',
  failure: 'two identical requests arrive at the same time',
  absorbedBy: 'guard 1: one claims, the other gets 409 and then the same answer',
  run,
};

/** Long enough for the second to arrive, and well within the gateway's 3 s. */
const pauseMs = 1_000;

async function run(system: System): Promise<Observation> {
  const order = newOrder(system, 'two-at-once');
  const { partner, key, body } = order;
  const sentAt = new Date();
  system.tell(`${partner.id} sends ${key} twice at once; whoever claims it is held for 1 s`);
  const site = { service: 'ingest-gateway', point: 'gateway.claimed', pauseMs } as const;
  const answers = await pauseAt(system, site, () =>
    Promise.all([partner.pay(key, body), partner.pay(key, body)]),
  );
  answers.sort((one, other) => other.status - one.status);
  const [refused, accepted] = answers;
  for (const answer of [refused, accepted]) tellAnswer(system, answer);
  const evidence = { ids: [key], saw: answers };
  promised('of two at once, one is answered 202', accepted.status === 202, evidence);
  promised(
    'of two at once, the other is answered 409 with Retry-After',
    refused.status === 409 && (refused.retryAfterSeconds ?? 0) >= 1,
    evidence,
  );

  const id = idOf(accepted);
  const first: Accepted = { ...order, id, answer: accepted, sentAt };
  const retry = await settledAnswer(system, order);
  system.tell('the refused one asks again');
  tellAnswer(system, retry);
  promiseReplay(first, retry);

  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  const { records } = await recordsOf(system, first);
  promised('two at once append one record', records.length === 1, { ids: [id], saw: records });
  return {
    ids: [id],
    guards: {
      claims: 'one owner at a time: 1 claimed, 1 told to wait and then given the same bytes',
      ledger: `saw one request: ${count(records.length, 'Kafka record')}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
