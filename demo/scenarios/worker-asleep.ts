import { formatSpan } from '@triplock/command';
import type { IHeaders } from 'kafkajs';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  untilDelivered,
} from '../effects.ts';
import { pauseAt } from '../faults.ts';
import { newCardOrder, sendFirst, type Accepted } from '../orders.ts';
import { FaultDidNotFire, fired, promised, until } from '../promises.ts';
import { askProvider, describeProvider, requireSimulator, withProviderClock } from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import type { System } from '../system.ts';

/** Who sleeps past the provider's memory of keys over a charge finds it settled. */
export const workerAsleep: Scenario = {
  name: 'worker-asleep',
  failure: 'a worker charges a card and sleeps for a day before it settles the payment',
  absorbedBy: 'guard 2: the same key tells another worker of the charge; the sleeper is too late',
  run: oversleepTheKeys,
};

/** Time enough for another to settle, also on a busy machine. */
const pauseMs = 6_000;
const attemptsMax = 3;
const site = { service: 'ledger-worker', point: 'worker.charged', pauseMs } as const;
const asleepMs = 25 * 3_600_000;

async function oversleepTheKeys(system: System): Promise<Observation> {
  requireSimulator(system);
  const { id } = await oversleepInTime(system);
  const provider = await askProvider(system, id);
  system.report(`the sleeper woke and would settle, too: ${describeProvider(provider)}`);
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; 1 Kafka record and its copy`,
      ledger: `the sleeper's version was stale, so it wrote nothing; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

async function oversleepInTime(system: System): Promise<Accepted> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const overslept = await pauseAt(system, site, () => oversleep(system));
    if (overslept !== undefined) return overslept;
    system.report('it woke too soon: this machine is busy; once more with another key');
  }
  throw new FaultDidNotFire('no worker slept for longer than another took to settle');
}

/** One worker sleeps over its charge; another settles; the clock goes on; the first wakes. */
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
  system.report(`the worker has charged the card, and sleeps for ${formatSpan(pauseMs)}`);
  await copyRecord(system, accepted);
  system.report('its record comes a second time, in another partition');
  await waitFor('the other worker to settle', async () => {
    const { ledger } = await lookAtPayment(system, id);
    return ledger[0]?.state === 'succeeded';
  });
  // Later than this, it may have been the sleeper itself.
  if (Date.now() - accepted.sentAt.getTime() >= pauseMs) return undefined;
  system.report(
    `settled; the provider's clock goes on by ${formatSpan(asleepMs)}, keys are forgotten`,
  );
  await withProviderClock(system, asleepMs, () =>
    waitFor('the sleeper', async () => (await late.grown()) > 0),
  );
  return accepted;
}

/**
 * Appends a payment's record once more, to the partition after its own, as a gateway may whose
 * first append got no answer and that knows of more partitions by now.
 */
async function copyRecord(
  { kafka, names, accepted }: System,
  { id, sentAt }: Accepted,
): Promise<void> {
  const topic = names.acceptedTopic;
  const { partition, records } = await accepted.ofKey(id, sentAt);
  const [record] = records;
  fired('there is no record to copy', record !== undefined);
  const { key, value } = record;
  const headers = record.headers as IHeaders;
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  const admin = kafka.admin();
  await Promise.all([producer.connect(), admin.connect()]);
  try {
    const partitions = (await admin.fetchTopicOffsets(topic)).length;
    const another = (partition + 1) % partitions;
    const messages = [{ key, value, headers, partition: another }];
    await producer.send({ topic, acks: -1, messages });
  } finally {
    await Promise.all([producer.disconnect(), admin.disconnect()]);
  }
}
