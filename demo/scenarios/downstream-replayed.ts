import { count } from '@triplock/operator';
import { watchCounter } from '../counters.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { newKey } from '../partner.ts';
import { dropSnapshot, seekBack, takeSnapshot } from '../pubsub.ts';
import { lookAt, untilDropped, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, sendFirst } from './send.ts';

/** A consumer is set back, as after a bad deployment, and Pub/Sub delivers what it had taken. */
export const downstreamReplayed: Scenario = {
  name: 'downstream-replayed',
  failure: 'a subscription is sought back, and Pub/Sub delivers everything again',
  absorbedBy: 'guard 3: the inbox knows every event by its id',
  run: async (system) => {
    const snapshot = newKey('downstream-replayed');
    const place = { subscription: system.names.notifierSubscription, snapshot };
    // To a snapshot and not to a time, which Cloud Pub/Sub can do and the emulator cannot.
    await takeSnapshot(system, place);
    system.tell(`a snapshot of the subscription ${place.subscription} is taken`);
    try {
      return await replay(system, place);
    } finally {
      await dropSnapshot(system, snapshot);
    }
  },
};

const paymentCount = 3;

async function replay(system: System, place: Parameters<typeof seekBack>[1]): Promise<Observation> {
  const ids: string[] = [];
  while (ids.length < paymentCount) {
    ids.push((await sendFirst(system, newOrder(system, 'downstream-replayed'))).id);
  }
  for (const id of ids) await untilTold(system, id);
  system.tell(`the partner has its ${count(ids.length, 'webhook')}`);

  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  await seekBack(system, place);
  system.tell('the subscription is sought back to the snapshot: its acknowledgements are undone');
  // Their number is the proof that they really came again.
  const dropped = await untilDropped(system, { ids, copies: ids.length, duplicates });
  const last = await lookAt(system, ids.at(-1)!);
  return {
    ids,
    guards: {
      claims: 'not asked: no partner sent anything',
      ledger: `not asked: nothing of it changed; of the last payment ${describeLedger(last)}`,
      inbox: `${count(dropped, 'duplicate')} dropped; of the last payment ${describeInbox(last)}`,
      webhook: `none came again: ${describeWebhook(last)}`,
    },
  };
}
