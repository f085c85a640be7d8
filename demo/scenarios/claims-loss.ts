import { count, formatSpan } from '@triplock/operator';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  untilDelivered,
} from '../effects.ts';
import { bringBack, killAt } from '../faults.ts';
import {
  askAgain,
  newCardOrder,
  newOrder,
  promiseOneRecord,
  promiseReplay,
  promiseReused,
  recordsOf,
  sendFirst,
  type Accepted,
} from '../orders.ts';
import { fired, promised } from '../promises.ts';
import { askProvider, describeProvider, requireSimulator } from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import type { System } from '../system.ts';

/** Guard 1 loses all its claims; its answers must stay right, not only the effects. */
export const claimsForgotten: Scenario = {
  name: 'claims-forgotten',
  failure: 'the claim store loses everything between a payment and its retry',
  absorbedBy: 'guard 1, which asks the ledger: the same id, the same fingerprint',
  run: loseBetween,
};

async function loseBetween(system: System): Promise<Observation> {
  const first = await sendFirst(system, newOrder(system, 'claims-forgotten'));
  const { id } = first;
  await untilDelivered(system, id);
  const claim = await system.claims.look(id);
  fired('there was no claim to lose', claim?.state === 'completed');
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}: ${count(keys, 'key')} gone`);

  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);

  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  const records = await promiseOneRecord(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `answered for it: ${records}, ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/**
 * Guard 1 forgets a payment that guard 2 has not finished: the money has moved, the row is pending.
 */
export const claimsLostInACard: Scenario = {
  name: 'claims-lost-in-a-card',
  failure:
    'the claim store loses everything while a card is charged, the worker dies, and the partner retries',
  absorbedBy: 'guard 1, which waits for the ledger; guard 2, which has the intent on the row',
  run: loseWhileCharging,
};

const site = { service: 'ledger-worker', point: 'worker.charged' } as const;

async function loseWhileCharging(system: System): Promise<Observation> {
  requireSimulator(system);
  let accepted: Accepted | undefined;
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'claims-lost-in-a-card'));
  });
  const first = accepted!;
  const { id } = first;
  const charged = await askProvider(system, id);
  fired('the card was not charged', charged.charges.length === 1);
  fired(
    'the payment was settled',
    (await lookAtPayment(system, id)).ledger[0]?.state === 'pending',
  );
  system.report(`${died.name} (pid ${died.pid}) killed itself; ${describeProvider(charged)}`);
  const { command, keys } = await system.claims.forget();
  fired('the claim outlived it', (await system.claims.look(id)) === undefined);
  system.report(`${command}: ${count(keys, 'key')} gone`);

  const back = await bringBack(system, died);
  system.report(`${back.name} is back (pid ${back.pid})`);
  const { again, other, unsure } = await askAgain(system, first);
  promiseReplay(first, again);
  promiseReused(first, other);
  const seen = await untilDelivered(system, id);
  const after = await askProvider(system, id);
  promised('a card is charged once', after.charges.length === 1, { ids: [id], saw: after });
  promiseOneEffect(id, seen);
  const { records } = await recordsOf(system, first);
  const patience = unsure === 0 ? '' : ` after ${count(unsure, '503')}`;
  return {
    ids: [id],
    guards: {
      claims: `cold, so it asked the ledger: same bytes in ${formatSpan(again.tookMs)}${patience}`,
      ledger: `resumed by the stored intent: ${count(records.length, 'Kafka record')}, ${describeProvider(after)}; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}
