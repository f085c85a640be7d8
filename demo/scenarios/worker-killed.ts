import { count } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { watchCounter } from '../counters.ts';
import { bringBack, killAt, takenOverAfterMs } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { committedOffsets, havePassed } from '../ledger-group.ts';
import { lookAt, promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';
import { recordsOf } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, sendFirst, type Accepted } from './send.ts';

/** The gap between two durable steps that no broker closes: the row is there, the offset is not. */
export const workerKilled: Scenario = {
  name: 'worker-killed',
  failure: 'the worker dies after the ledger commit, before the offset commit',
  absorbedBy: 'guard 2: the redelivered record meets its own row',
  run,
};

const site = { service: 'ledger-worker', point: 'worker.committed' } as const;

/** A dead member holds its partitions until its session is over; two of those, and some. */
const redeliveryMaxMs = 240_000;

async function run(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_records_total',
    labels: { outcome: 'already-recorded' },
  });
  const order = newOrder(system, 'worker-killed');
  let accepted: Accepted | undefined;
  const began = performance.now();
  const died = await killAt(system, site, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  system.tell(`${died.name} (pid ${died.pid}) killed itself right after its commit`);

  // Asked first, because with two replicas the other one takes over after a while.
  const committed = await committedOffsets(system);
  const { partition, records } = await recordsOf(system, accepted!);
  const record = BigInt(records[0]!.offset);
  const next = committed.get(partition) ?? 0n;
  const { ledger } = await lookAt(system, id);
  const isOpen = next <= record;
  const isLate = performance.now() - began > takenOverAfterMs;
  fired('the offset was committed', ledger.length === 1 && (isOpen || isLate));
  const [told, offset] = isOpen ? ['is not', 'is'] : ['was not', 'is by now'];
  system.tell(
    `its row is there, its offset ${told}: record ${record}, the group ${offset} at ${next}`,
  );

  const back = await bringBack(system, died);
  system.tell(`${back.name} is back (pid ${back.pid}); Kafka delivers the record again`);
  await until({
    what: 'the redelivered record to be taken and its offset to be committed',
    withinMs: redeliveryMaxMs,
    signal: system.signal,
    check: async () => {
      system.progress('waiting for Kafka to give the partition to a living worker');
      const committed = await committedOffsets(system);
      return havePassed(committed, new Map([[partition, record + 1n]]));
    },
  });
  // A worker counts what it took before it commits the offset.
  const again = await duplicates.grown();
  promised('a redelivered record meets its own row', again > 0, { ids: [id], saw: again });
  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${count(records.length, 'Kafka record')}`,
      ledger: `${count(again, 'redelivered record')} already recorded; ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: describeWebhook(sight),
    },
  };
}
