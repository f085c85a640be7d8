import { promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { count, formatSpan } from '../terminal/words.ts';
import { readClaim } from '../trace/read-claim.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, promiseReplay, send, sendFirst } from './send.ts';

/** A partner that lost the answer asks again, and one that mixes up its keys is told. */
export const retry: Scenario = {
  name: 'retry',
  failure: 'a partner sends the same payment again',
  absorbedBy: 'guard 1: the claim holds the first answer',
  run,
};

async function run(system: System): Promise<Observation> {
  const order = newOrder(system, 'retry');
  const first = await sendFirst(system, order);
  const again = await send(system, order);
  promiseReplay(first, again);

  const other = await send(system, { ...order, body: { ...order.body, amount: 2_600 } });
  const evidence = { ids: [first.id], saw: other };
  promised('another body under a used key is refused by 422', other.status === 422, evidence);

  const sight = await untilTold(system, first.id);
  promiseOneEffect(first.id, sight);
  const { records } = await recordsOf(system, first);
  promised('a replay appends nothing to Kafka', records.length === 1, {
    ids: [first.id],
    saw: records,
  });
  const claim = await readClaim(system.redis, first.id);
  const left = claim === undefined ? 'the claim is gone' : `kept ${formatSpan(claim.leftMs)} more`;
  const bytes = Buffer.byteLength(first.answer.body);
  return {
    ids: [first.id],
    guards: {
      claims: `answered the retry with the same ${bytes} bytes, refused the other body; ${left}`,
      ledger: `never saw either: ${count(records.length, 'Kafka record')}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
