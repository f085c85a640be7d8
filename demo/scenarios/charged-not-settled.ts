import { count } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { bringBack, killAt, takenOverAfterMs } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider, requireSimulator } from '../provider.ts';
import { lookAt, promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, sendFirst, type Accepted } from './send.ts';

/** Money has moved and the ledger does not know it yet: the row names the intent that does. */
export const chargedNotSettled: Scenario = {
  name: 'charged-not-settled',
  failure: 'the worker dies between charging the card and settling the payment',
  absorbedBy:
    'guard 2: the intent’s id was stored before it was confirmed, so it is asked, not repeated',
  run,
};

const site = { service: 'ledger-worker', point: 'worker.charged' } as const;

async function run(system: System): Promise<Observation> {
  requireSimulator(system);
  const order = newCardOrder(system, 'charged-not-settled');
  let accepted: Accepted | undefined;
  const began = performance.now();
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  const { ledger } = await lookAt(system, id);
  const charged = await askProvider(system, id);
  const isPending = ledger[0]?.state === 'pending';
  fired('the payment was settled', isPending || performance.now() - began > takenOverAfterMs);
  fired('the card was not charged', charged.charges.length === 1);
  system.tell(`${died.name} (pid ${died.pid}) killed itself; ${describeProvider(charged)}`);
  const resumed = 'another worker has resumed it already, by the intent that the row names';
  system.tell(isPending ? 'the row is pending and names the intent' : resumed);

  const back = await bringBack(system, died);
  const finds = isPending ? ' and finds the row unfinished' : '';
  system.tell(`${back.name} is back (pid ${back.pid})${finds}`);
  const sight = await untilTold(system, id);
  const after = await askProvider(system, id);
  promised('a card is charged once', after.charges.length === 1, { ids: [id], saw: after });
  promiseOneEffect(id, sight);
  const { records } = await recordsOf(system, accepted!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${count(records.length, 'Kafka record')}`,
      ledger: `resumed by the stored intent, ${describeProvider(after)}; ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
