import { auditSystem, type System } from '@triplock/demo';
import { CommandError, type Terminal } from '@triplock/command';
import { openServerCounts } from '../bench/counts.ts';
import {
  measuredServices,
  type BenchOptions,
  type MeasuredService,
} from '../bench/measurements.ts';
import {
  drainStage,
  perPayment,
  runLoad,
  withHelpers,
  type Bench,
  type StageRun,
} from '../bench/runs.ts';
import type { RunOnly } from '../systems.ts';
import type { Costs, StageCost } from './sizing.ts';

/** What came of each stage's backlog with so many processes of it. */
export type Measured = Costs & {
  processes: number;
  /** The audit found no drift. */
  ok: boolean;
};

type Own = { system: System; terminal: Terminal; runOnly: RunOnly; options: BenchOptions };

const auditWaitMs = 300_000;

/**
 * Has each stage do a backlog while the later ones do not run, with as many processes as the system
 * has of each service; then audits.
 */
export async function measureStages(
  { system, terminal, runOnly, options }: Own,
  processes: number,
): Promise<Measured> {
  const counts = await openServerCounts(system);
  try {
    const own = { runOnly, counts };
    return await withHelpers({ system, terminal, options, own }, async (bench) => {
      const before = await counts.read();
      const { stages, payments } = await runStages(bench, runOnly);
      const after = await counts.read();
      terminal.note('audit');
      const { ok } = await auditSystem(system, auditWaitMs);
      const records = after.kafka.records - before.kafka.records;
      return {
        processes,
        ok,
        stages,
        recordBytes: (after.kafka.bytes - before.kafka.bytes) / records,
        walBytes: (after.walBytes - before.walBytes) / payments,
        ...(await readLedger(system, payments)),
      };
    });
  } finally {
    await counts.close();
  }
}

async function runStages(
  bench: Bench,
  runOnly: RunOnly,
): Promise<Pick<Costs, 'stages'> & { payments: number }> {
  const { terminal, options } = bench;
  const [gateway, ...behind] = measuredServices as [MeasuredService, ...MeasuredService[]];
  terminal.note('the gateway alone, which makes the backlog');
  await runOnly([gateway]);
  const warm = await runLoad(bench, { seconds: options.seconds / 4 }, [gateway]);
  const { run } = await runLoad(bench, {}, [gateway]);
  const { accepted, tookMs, cpuMicros } = run.load;
  const payments = warm.run.load.accepted + accepted;
  const ofGateway = {
    perSecond: (accepted * 1_000) / tookMs,
    cpu: perPayment(run.cpu, accepted),
    senderMicros: cpuMicros / accepted,
  };
  const stages: [MeasuredService, StageCost][] = [[gateway, ofGateway]];
  const running = [gateway];
  for (const stage of behind) {
    running.push(stage);
    const drained = await drainStage(bench, { stage, running, count: payments });
    requireLooks(stage, drained);
    stages.push([stage, drained]);
  }
  return { stages: Object.fromEntries(stages) as Costs['stages'], payments };
}

/** Fewer looks at a stage are no measurement of it. */
const looksMin = 4;

function requireLooks(stage: string, { looks = 0, of }: StageRun): void {
  if (looks >= looksMin) return;
  const problem = `${stage} was done with ${of} payments before it could be measured`;
  throw new CommandError(`${problem}: make more of them, by a higher --seconds`);
}

/** What each payment wrote in the ledger, and how long its event is. */
async function readLedger(
  { database }: System,
  payments: number,
): Promise<Pick<Costs, 'ledgerRows' | 'eventBytes'>> {
  const [written] = await database.query<{ rows: number }>(`
    SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::float8 AS rows
    FROM pg_stat_user_tables WHERE schemaname = 'ledger'`);
  const [event] = await database.query<{ bytes: number }>(`
    SELECT avg(octet_length(payload))::float8 AS bytes
    FROM (SELECT payload FROM ledger.outbox LIMIT 1000) AS sample`);
  return { ledgerRows: written!.rows / payments, eventBytes: event!.bytes };
}
