import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import type { Answer } from '../partner.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { count, formatSpan } from '../terminal/words.ts';
import { readClaim } from '../trace/read-claim.ts';
import { forgetEverything } from './forget-everything.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, promiseReplay, sendFirst, settledAnswer, tellAnswer } from './send.ts';

/** Guard 1 loses its memory; its answers must stay right, not only the effects. */
export const redisFlushed: Scenario = {
  name: 'redis-flushed',
  failure: 'Redis loses everything between a payment and its retry',
  absorbedBy: 'guard 1 asks the ledger, which has the same id and fingerprint',
  run,
};

async function run(system: System): Promise<Observation> {
  const order = newOrder(system, 'redis-flushed');
  const first = await sendFirst(system, order);
  const { id } = first;
  await untilTold(system, id);
  const claim = await readClaim(system.redis, id);
  fired('there was no claim to lose', claim?.state === 'completed');
  const { command, keys } = await forgetEverything(system.redis);
  fired('the claim outlived it', (await readClaim(system.redis, id)) === undefined);
  system.tell(`${command} in Redis: ${count(keys, 'key')} gone`);

  let unsure = 0;
  const ask = (body = order.body): Promise<Answer> =>
    settledAnswer(system, { ...order, body }, () => (unsure += 1));
  const retry = await ask();
  system.tell('the same request again');
  tellAnswer(system, retry);
  promiseReplay(first, retry);
  const other = await ask({ ...order.body, amount: 2_600 });
  system.tell('another body under the same key');
  tellAnswer(system, other);
  const evidence = { ids: [id], saw: other };
  promised('another body under a used key is refused by 422', other.status === 422, evidence);

  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  const { records } = await recordsOf(system, first);
  promised('a replay appends nothing to Kafka', records.length === 1, { ids: [id], saw: records });
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(retry.tookMs)}${patience}`,
      ledger: `answered for it; ${count(records.length, 'Kafka record')}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
