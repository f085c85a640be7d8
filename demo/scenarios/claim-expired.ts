import { count } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { askAgain, newOrder, promiseReused, sendFirst } from './send.ts';

/** Guard 1 remembers a key for 24 hours; the ledger remembers it for ever. */
export const claimExpired: Scenario = {
  name: 'claim-expired',
  failure: 'a partner sends the same payment again after its claim has expired',
  absorbedBy: 'guard 2: the same key is the same id, and its row is there',
  run,
};

async function run(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claim-expired'));
  const { id } = first;
  await untilTold(system, id);
  // What 24 hours do, in a millisecond.
  fired('there was no claim to expire', await system.claims.expire(id));
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.tell('its claim has expired');

  const { again, other, unsure } = await askAgain(system, first);
  const same = again.status === first.answer.status && again.body === first.answer.body;
  promised('a late retry gets the same answer', same, { ids: [id], saw: again });
  promiseReused(first, other);

  const { records } = await recordsOf(system, first);
  const rightful = records.length <= 2 + first.unsure + unsure;
  promised('a late retry is one record more at most', rightful, { ids: [id], saw: records });
  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  // A gateway that met a loss within the last day asks the ledger before it claims.
  const asked = again.replayed ? 'asked the ledger first' : 'claimed it as new';
  return {
    ids: [id],
    guards: {
      claims: `had nothing left of it and ${asked}: ${count(records.length, 'Kafka record')}`,
      ledger: `knows the id for ever: ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
