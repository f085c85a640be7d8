import { describeLife } from '../store-places.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { askAgain, newOrder, promiseReplay, promiseReused, sendFirst } from './send.ts';

/** A partner that lost the answer asks again, and one that mixes up its keys gets a 422. */
export const retry: Scenario = {
  name: 'retry',
  failure: 'a partner sends the same payment again',
  absorbedBy: 'guard 1: the claim holds the first answer',
  run,
};

async function run(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'retry'));
  const { again, other } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const sight = await untilTold(system, first.id);
  promiseOneEffect(first.id, sight);
  const records = await promiseOneRecord(system, first);
  const claim = await system.claims.look(first.id);
  const left = describeLife(claim);
  const bytes = Buffer.byteLength(again.body);
  return {
    ids: [first.id],
    guards: {
      claims: `gave the retry the same ${bytes} bytes, refused the other; the claim ${left}`,
      ledger: `never saw them: ${records}, ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
