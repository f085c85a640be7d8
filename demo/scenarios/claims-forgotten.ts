import { count, formatSpan } from '@triplock/operator';
import { fired } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { askAgain, newOrder, promiseReplay, promiseReused, sendFirst } from './send.ts';

/** Guard 1 loses all its claims; its answers must stay right, not only the effects. */
export const claimsForgotten: Scenario = {
  name: 'claims-forgotten',
  failure: 'the claim store loses everything between a payment and its retry',
  absorbedBy: 'guard 1, which asks the ledger: the same id, the same fingerprint',
  run,
};

async function run(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claims-forgotten'));
  const { id } = first;
  await untilTold(system, id);
  const claim = await system.claims.look(id);
  fired('there was no claim to lose', claim?.state === 'completed');
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.tell(`${command}: ${count(keys, 'key')} gone`);

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
