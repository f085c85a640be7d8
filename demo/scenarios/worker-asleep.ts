import { formatSpan } from '@triplock/operator';
import { FaultDidNotFire, promised } from '../broken-promise.ts';
import { watchCounter } from '../counters.ts';
import { pauseAt } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider, requireSimulator, withProviderClock } from '../provider.ts';
import { lookAt, promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';
import { copyRecord } from './copy-record.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, sendFirst, type Accepted } from './send.ts';

/** Who sleeps past the provider's memory of keys has nothing left but the intent's own state. */
export const workerAsleep: Scenario = {
  name: 'worker-asleep',
  failure: 'a worker sleeps for a day before it confirms a charge that was made meanwhile',
  absorbedBy: 'guard 2: the intent has succeeded, and no key has to remember that',
  run,
};

/** Time enough for another to charge, also on a busy machine. */
const pauseMs = 6_000;
const attemptsMax = 3;
const site = { service: 'ledger-worker', point: 'worker.intent-stored', pauseMs } as const;
const asleepMs = 25 * 3_600_000;

async function run(system: System): Promise<Observation> {
  requireSimulator(system);
  const { id } = await oversleepInTime(system);
  const provider = await askProvider(system, id);
  system.tell(`the sleeper woke and confirmed, too: ${describeProvider(provider)}`);
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; 1 Kafka record and its copy`,
      ledger: `the sleeper's version was stale, so it wrote nothing; ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}

async function oversleepInTime(system: System): Promise<Accepted> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const overslept = await pauseAt(system, site, () => oversleep(system));
    if (overslept !== undefined) return overslept;
    system.tell('it woke too soon: this machine is busy; once more with another key');
  }
  throw new FaultDidNotFire('no worker slept for longer than another took to charge');
}

/**
 * One turn sleeps behind its stored intent; another charges; the clock goes on; the first wakes.
 */
async function oversleep(system: System): Promise<Accepted | undefined> {
  const late = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_charges_total',
    labels: { outcome: 'taken-over' },
  });
  const accepted = await sendFirst(system, newCardOrder(system, 'worker-asleep'));
  const { id } = accepted;
  const waitFor = (what: string, check: () => Promise<boolean>) => {
    system.progress(`waiting for ${what}`);
    return until({ what, signal: system.signal, check });
  };
  await waitFor('the intent', async () => (await askProvider(system, id)).intents.length === 1);
  system.tell(`the worker has prepared an intent, and sleeps for ${formatSpan(pauseMs)}`);
  await copyRecord(system, accepted);
  system.tell('its record comes a second time, in another partition');
  await waitFor('the other turn to settle', async () => {
    const { ledger } = await lookAt(system, id);
    return ledger[0]?.state === 'succeeded';
  });
  // Later than this, it may have been the sleeper itself.
  if (Date.now() - accepted.sentAt.getTime() >= pauseMs) return undefined;
  system.tell(
    `charged; the provider's clock goes on by ${formatSpan(asleepMs)}, keys are forgotten`,
  );
  await withProviderClock(system, asleepMs, () =>
    waitFor('the sleeper', async () => (await late.grown()) > 0),
  );
  return accepted;
}
