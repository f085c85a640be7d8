import { fired } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { count, formatSpan } from '../terminal/words.ts';
import { readClaim } from '../trace/read-claim.ts';
import { forgetEverything } from './forget-everything.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { askAgain, newOrder, promiseReplay, promiseReused, sendFirst } from './send.ts';

/** Guard 1 loses its memory; its answers must stay right, not only the effects. */
export const redisFlushed: Scenario = {
  name: 'redis-flushed',
  failure: 'Redis loses everything between a payment and its retry',
  absorbedBy: 'guard 1, which asks the ledger: the same id, the same fingerprint',
  needsClaims: 'redis',
  run,
};

async function run(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'redis-flushed'));
  const { id } = first;
  await untilTold(system, id);
  const claim = await readClaim(system, id);
  fired('there was no claim to lose', claim?.state === 'completed');
  const { command, keys } = await forgetEverything(system);
  fired('the claim outlived it', (await readClaim(system, id)) === undefined);
  system.tell(`${command} in Redis: ${count(keys, 'key')} gone`);

  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  const records = await promiseOneRecord(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `answered for it: ${records}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
