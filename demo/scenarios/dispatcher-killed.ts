import { count } from '@triplock/operator';
import { watchCounter } from '../counters.ts';
import { bringBack, killAt } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { lookAt, untilDropped, untilTold, type Sight } from '../sight.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, sendFirst, type Accepted } from './send.ts';

/** Cloud Pub/Sub does not deduplicate what a publisher sends twice; the receiver has to. */
export const dispatcherKilled: Scenario = {
  name: 'dispatcher-killed',
  failure: 'the dispatcher dies after publishing, before it notes that it did',
  absorbedBy: 'guard 3: both copies carry one event id, and the inbox knows it',
  run,
};

const site = { service: 'outbox-dispatcher', point: 'dispatcher.published' } as const;

async function run(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  const order = newOrder(system, 'dispatcher-killed');
  let accepted: Accepted | undefined;
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  system.tell(`${died.name} (pid ${died.pid}) killed itself right after publishing`);

  const first = await untilSeen(system, id, 1);
  const { copies, state } = first.events[0]!;
  system.tell(`${count(copies, 'copy is', 'copies are')} out, the outbox row says ${state}`);

  const back = await bringBack(system, died);
  system.tell(`${back.name} is back (pid ${back.pid}) and publishes the same event id again`);
  await untilSeen(system, id, 2);
  await untilTold(system, id);
  const dropped = await untilDropped(system, { ids: [id], copies: 1, duplicates });
  const sight = await lookAt(system, id);
  return {
    ids: [id],
    guards: {
      claims: 'not asked again: the partner has its 202',
      ledger: `not asked again: ${describeLedger(sight)}`,
      inbox: `${describeInbox(sight)}; ${count(dropped, 'duplicate')} dropped`,
      webhook: describeWebhook(sight),
    },
  };
}

/** Waits until the auditor's own subscription has seen so many copies of the payment's event. */
function untilSeen(system: System, id: string, copies: number): Promise<Sight> {
  return until({
    what: `${count(copies, 'copy', 'copies')} of the event of ${id} on Pub/Sub`,
    signal: system.signal,
    check: async () => {
      system.progress(`waiting for ${count(copies, 'published copy', 'published copies')}`);
      const sight = await lookAt(system, id);
      return (sight.events[0]?.copies ?? 0) >= copies && sight;
    },
  });
}
