import { count } from '@triplock/command';
import type { Queryable } from '@triplock/postgres';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  untilDelivered,
} from '../effects.ts';
import { bringBack, killAt, stopAll } from '../faults.ts';
import {
  committedOffsets,
  endOffsets,
  havePassed,
  rewindToEarliest,
  total,
  type Offsets,
} from '../brokers.ts';
import { newOrder, recordsOf, sendFirst, type Accepted } from '../orders.ts';
import { fired, promised, until } from '../promises.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import type { System } from '../system.ts';

/** The gap between two durable steps that no broker closes: the row is there, the offset is not. */
export const workerKilled: Scenario = {
  name: 'worker-killed',
  failure: 'the worker dies after the ledger commit, before the offset commit',
  absorbedBy: 'guard 2: the redelivered record meets its own row',
  run: killWorker,
};

const afterCommit = { service: 'ledger-worker', point: 'worker.committed' } as const;

/**
 * Kafka misses a worker 6 s after its last heartbeat, which may be 1.5 s older than the request,
 * and then another takes over what it had. Only a death that was noticed later than what is left of
 * the session may find the work done: an engine may say so late that a container ended.
 */
const mayBeTakenOverAfterMs = 6_000 - 1_500;

/** A dead member holds its partitions until its session is over; two of those, and some. */
const redeliveryMaxMs = 240_000;

async function killWorker(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_records_total',
    labels: { outcome: 'already-recorded' },
  });
  const order = newOrder(system, 'worker-killed');
  let accepted: Accepted | undefined;
  const began = performance.now();
  const died = await killAt(system, afterCommit, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  system.report(`${died.name} (pid ${died.pid}) killed itself right after its commit`);

  // Asked first, because with two replicas the other one takes over after a while.
  const committed = await committedOffsets(system);
  const { partition, records } = await recordsOf(system, accepted!);
  const record = BigInt(records[0]!.offset);
  const next = committed.get(partition) ?? 0n;
  const { ledger } = await lookAtPayment(system, id);
  const isOpen = next <= record;
  const isLate = performance.now() - began > mayBeTakenOverAfterMs;
  fired('the offset was committed', ledger.length === 1 && (isOpen || isLate));
  const [committedOrNot, offset] = isOpen ? ['is not', 'is'] : ['was not', 'is by now'];
  system.report(
    `its row is there, its offset ${committedOrNot}: record ${record}, the group ${offset} at ${next}`,
  );

  const back = await bringBack(system, died);
  system.report(`${back.name} is back (pid ${back.pid}); Kafka delivers the record again`);
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
  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${count(records.length, 'Kafka record')}`,
      ledger: `${count(again, 'redelivered record')} already recorded; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** Every payment ever accepted comes again, as after a mistake with a group's offsets. */
export const kafkaReplayed: Scenario = {
  name: 'kafka-replayed',
  failure: 'the whole Kafka topic is replayed from the earliest offset',
  absorbedBy: 'guard 2: every record meets its own row',
  run: replayTopic,
};

async function replayTopic(system: System): Promise<Observation> {
  const accepted = await sendFirst(system, newOrder(system, 'kafka-replayed'));
  const { id } = accepted;
  await untilDelivered(system, id);
  const now = new Date();
  await untilCaughtUp(system);
  const before = await totals(system.ledger, now);
  const duplicates = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_records_total',
    labels: { outcome: 'already-recorded' },
  });
  const { from, back } = await rewind(system);
  const [far, near] = [total(from), total(back)];
  system.report(`committed offsets went back from ${far} to ${near} records; workers start again`);
  await system.restore();

  await untilCaughtUp(system);
  const replayed = await duplicates.grown();
  const after = await totals(system.ledger, now);
  const evidence = { ids: [id], saw: { before, after } };
  const same = JSON.stringify(before) === JSON.stringify(after);
  promised('a replay of the whole topic changes nothing', same, evidence);
  const expected = await recorded(system.ledger, { from: back, upTo: now });
  promised('every replayed payment meets its own row', replayed >= expected, {
    ids: [id],
    saw: { replayed, expected },
  });
  const seen = await untilDelivered(system, id);
  promiseOneEffect(id, seen);
  return {
    ids: [id],
    guards: {
      claims: 'not asked: no partner sent anything',
      ledger: `${count(replayed, 'record')} already recorded; still ${describeTotals(after)}`,
      inbox: `nothing new was published; of the last payment ${describeInbox(seen)}`,
      webhook: describeWebhook(seen),
    },
  };
}

/** Stops all workers, because Kafka moves the offsets of an empty group only, and moves them. */
async function rewind(system: System): Promise<{ from: Offsets; back: Offsets }> {
  const stopped = await stopAll(system, 'ledger-worker');
  const from = await committedOffsets(system);
  system.report(`${stopped.map(({ name }) => name).join(' and ')} stopped by SIGTERM`);
  await until({
    what: "the workers' group to be empty",
    signal: system.signal,
    check: () => rewindToEarliest(system),
  });
  const back = await committedOffsets(system);
  fired('the committed offsets did not go back', total(back) < total(from));
  return { from, back };
}

/** Waits until the workers have settled all that the topic holds now. */
async function untilCaughtUp(system: System): Promise<void> {
  const end = await endOffsets(system);
  let reached = 0n;
  await until({
    what: `the workers to settle ${total(end)} records`,
    progress: () => String(reached),
    signal: system.signal,
    check: async () => {
      const committed = await committedOffsets(system);
      reached = total(committed);
      system.progress(`the workers are at ${reached} of ${total(end)} records`);
      return havePassed(committed, end);
    },
  });
}

type Totals = { rows: number; entries: number; events: number };

function describeTotals({ rows, entries, events }: Totals): string {
  return `${count(rows, 'row')}, ${count(entries, 'entry', 'entries')}, ${count(events, 'event')}`;
}

/** What there is of payments accepted up to a moment; others may be coming in meanwhile. */
async function totals(database: Queryable, upTo: Date): Promise<Totals> {
  const sql = `
    WITH old AS (SELECT txn_id FROM ledger.transactions WHERE created_at <= $1)
    SELECT (SELECT count(*) FROM old)::int AS rows,
           (SELECT count(*) FROM ledger.entries JOIN old USING (txn_id))::int AS entries,
           (SELECT count(*) FROM ledger.outbox JOIN old USING (txn_id))::int AS events`;
  return (await database.query<Totals>(sql, [upTo]))[0]!;
}

/**
 * Payments in the ledger whose record Kafka still has, by the auditor's own reading of the topic.
 */
async function recorded(
  database: Queryable,
  { from, upTo }: { from: Offsets; upTo: Date },
): Promise<number> {
  const sql = `
    SELECT count(*)::int AS n
    FROM auditor.accepted
    JOIN ledger.transactions USING (txn_id, fingerprint)
    JOIN unnest($1::int[], $2::bigint[]) AS earliest (kafka_partition, kafka_offset)
      ON earliest.kafka_partition = accepted.kafka_partition
      AND earliest.kafka_offset <= accepted.kafka_offset
    WHERE transactions.created_at <= $3`;
  const offsets = [...from.values()].map(String);
  return (await database.query<{ n: number }>(sql, [[...from.keys()], offsets, upTo]))[0]!.n;
}
