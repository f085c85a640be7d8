import { count, formatSpan } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { bringBack, killAt } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider, requireSimulator } from '../provider.ts';
import { lookAt, promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import {
  askAgain,
  newCardOrder,
  promiseReplay,
  promiseReused,
  sendFirst,
  type Accepted,
} from './send.ts';

/**
 * Guard 1 forgets a payment that guard 2 has not finished: the money has moved, the row is pending.
 */
export const claimsLostInACard: Scenario = {
  name: 'claims-lost-in-a-card',
  failure:
    'the claim store loses everything while a card is charged, the worker dies, and the partner retries',
  absorbedBy: 'guard 1, which waits for the ledger; guard 2, which has the intent on the row',
  run,
};

const site = { service: 'ledger-worker', point: 'worker.charged' } as const;

async function run(system: System): Promise<Observation> {
  requireSimulator(system);
  let accepted: Accepted | undefined;
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'claims-lost-in-a-card'));
  });
  const first = accepted!;
  const { id } = first;
  const charged = await askProvider(system, id);
  fired('the card was not charged', charged.charges.length === 1);
  fired('the payment was settled', (await lookAt(system, id)).ledger[0]?.state === 'pending');
  system.tell(`${died.name} (pid ${died.pid}) killed itself; ${describeProvider(charged)}`);
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.tell(`${command}: ${count(keys, 'key')} gone`);

  const back = await bringBack(system, died);
  system.tell(`${back.name} is back (pid ${back.pid})`);
  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);
  const sight = await untilTold(system, id);
  const after = await askProvider(system, id);
  promised('a card is charged once', after.charges.length === 1, { ids: [id], saw: after });
  promiseOneEffect(id, sight);
  const { records } = await recordsOf(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `resumed by the stored intent: ${count(records.length, 'Kafka record')}, ${describeProvider(after)}; ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
