import type { Queryable } from '@triplock/postgres';
import { count } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { watchCounter } from '../counters.ts';
import { stopAll } from '../faults.ts';
import { describeInbox, describeWebhook } from '../guards.ts';
import {
  committedOffsets,
  endOffsets,
  havePassed,
  rewindToEarliest,
  total,
  type Offsets,
} from '../ledger-group.ts';
import { promiseOneEffect, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, sendFirst } from './send.ts';

/** Every payment ever accepted comes again, as after a mistake with a group's offsets. */
export const kafkaReplayed: Scenario = {
  name: 'kafka-replayed',
  failure: 'the whole Kafka topic is replayed from the earliest offset',
  absorbedBy: 'guard 2: every record meets its own row',
  run,
};

async function run(system: System): Promise<Observation> {
  const accepted = await sendFirst(system, newOrder(system, 'kafka-replayed'));
  const { id } = accepted;
  await untilTold(system, id);
  const now = new Date();
  await untilCaughtUp(system);
  const before = await totals(system.ledger, now);
  const duplicates = await watchCounter(system, 'ledger-worker', {
    name: 'triplock_worker_records_total',
    labels: { outcome: 'already-recorded' },
  });
  const { from, back } = await rewind(system);
  const [far, near] = [total(from), total(back)];
  system.tell(`committed offsets went back from ${far} to ${near} records; workers start again`);
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
  const sight = await untilTold(system, id);
  promiseOneEffect(id, sight);
  return {
    ids: [id],
    guards: {
      claims: 'not asked: no partner sent anything',
      ledger: `${count(replayed, 'record')} already recorded; still ${describeTotals(after)}`,
      inbox: `nothing new was published; of the last payment ${describeInbox(sight)}`,
      webhook: describeWebhook(sight),
    },
  };
}

/** Stops all workers, because Kafka moves the offsets of an empty group only, and moves them. */
async function rewind(system: System): Promise<{ from: Offsets; back: Offsets }> {
  const stopped = await stopAll(system, 'ledger-worker');
  const from = await committedOffsets(system);
  system.tell(`${stopped.map(({ name }) => name).join(' and ')} stopped by SIGTERM`);
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
