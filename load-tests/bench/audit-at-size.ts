import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import { askAuditor, type AuditReport } from '@triplock/inspect';
import { formatSpan, renderTable, type Terminal } from '@triplock/command';
import { openForCommand, type Database } from '@triplock/postgres';
import { describeRig, type Rig } from '../systems.ts';
import { startHelper } from './helper-process.ts';
import { makePayments, type Size } from './many-payments.ts';
import type { LoadOrder, LoadReport } from './load-generator.ts';
import { sampleBeside } from './measurements.ts';
import { orderFor } from './runs.ts';

// What a look of a dispatcher at all buckets reads: blocks of index and table, and what waits.
const measureLook = `
  EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
  SELECT event.event_id
  FROM generate_series(0, 63) AS wanted (bucket)
  CROSS JOIN LATERAL (
    SELECT event_id FROM ledger.outbox
    WHERE outbox.bucket = wanted.bucket AND state = 'pending'
    ORDER BY order_id
    LIMIT 100
  ) AS event`;
// Blocks that were read in this database, from memory or disk, and how many slices are closed.
const measureBlocks = `
  SELECT (SELECT (blks_hit + blks_read)::float8 FROM pg_stat_database
          WHERE datname = current_database()) AS blocks,
         (SELECT coalesce(max(nth), 0) FROM auditor.audit_slices) AS slices`;

/**
 * What an audit took. CPU of PostgreSQL is what the time would be on a machine with nothing else to
 * do and all in memory; absent where the server is not a process of this machine.
 */
type Audited = { ms: number; cpuMs?: number; blocks: number; slices: number };

/** Blocks that a dispatcher's look read: of the looks of some time the median and the most. */
type Looks = { median: number; max: number; events: number };

/** Figures of an audit at size, and whether no audit found drift. */
export type SizeReport = {
  ok: boolean;
  rig: Rig;
  size: Size;
  figures: {
    first: Audited;
    next: Audited;
    /** A full audit that was interrupted, and the one that went on where it had come to. */
    interrupted: Audited & { at: number };
    resumed: Audited;
    looks: { alone: Looks; duringFull: Looks; duringSnapshot: Looks };
  };
};

const abandonedMs = 31_000;
const loadSeconds = 20;

/**
 * Makes so many payments in a system, audits them in every way, and reads what the dispatcher's
 * looks cost meanwhile.
 */
export async function runAuditAtSize(
  { system, terminal }: { system: System; terminal: Terminal },
  size: Size,
): Promise<SizeReport> {
  const rig = describeRig();
  const url = system.endpoints.postgres;
  const database = openForCommand({ url, applicationName: 'bench', statementTimeoutMs: 600_000 });
  try {
    const reports: AuditReport[] = [];
    const audit = (depth: 'some' | 'full', signal = system.signal) =>
      measureAudit({ system, database, reports }, { depth, signal });
    const modelId = await payModel(system);
    await makePayments({ url, terminal, signal: system.signal }, modelId, size);
    terminal.note('the first audit, which closes what it compares');
    const first = await audit('some');
    terminal.note('the next audit');
    const next = await audit('some');
    terminal.note('a full audit that is interrupted, and the next');
    const interrupted = await interruptAudit({ system, database, slices: next.slices });
    const resumed = await audit('full');
    const looks = await measureLooks({ system, database, terminal }, (signal) =>
      audit('full', signal),
    );
    const ok = reports.every((report) => report.ok);
    return { ok, rig, size, figures: { first, next, interrupted, resumed, looks } };
  } finally {
    await database.close();
  }
}

type Measuring = { system: System; database: Database; terminal: Terminal };

/** The payment that the others are to be like, in every layer. */
export async function payModel(system: System): Promise<string> {
  const partner = system.partner('acme');
  const order = { amount: 1_250, currency: 'EUR', reference: 'bench' };
  const { body } = await partner.pay('bench-model', order);
  const { ok } = await askAuditor(asking(system, { depth: 'some', waitMs: 60_000 }));
  if (!ok) throw new Error('the payment that the others are to be like did not come to its end');
  return (JSON.parse(body) as { id: string }).id;
}

function asking(
  system: System,
  asked: { depth: 'some' | 'full'; waitMs?: number; signal?: AbortSignal },
) {
  const [auditor] = system.replicas('auditor');
  const progress = (text: string) => system.progress(text);
  const usual = { auditorUrl: auditor!.health, waitMs: 10_000, signal: system.signal, progress };
  return { ...usual, ...asked };
}

type Blocks = { blocks: number; slices: number };

async function measureAudit(
  { system, database, reports }: Omit<Measuring, 'terminal'> & { reports: AuditReport[] },
  asked: { depth: 'some' | 'full'; signal: AbortSignal },
): Promise<Audited> {
  const measure = await beginMeasure({ system, database });
  reports.push(await askAuditor(asking(system, asked)));
  return measure();
}

/** Gives what ends it and says what was used meanwhile. */
async function beginMeasure({
  system,
  database,
}: Omit<Measuring, 'terminal'>): Promise<() => Promise<Audited>> {
  const before = await readBlocks(database);
  const cpuBefore = await sampleBeside(system);
  const startedAt = performance.now();
  return async () => {
    const ms = performance.now() - startedAt;
    const cpuAfter = await sampleBeside(system);
    const { blocks, slices } = await readBlocks(database);
    const cpuMs = ((cpuAfter.postgres ?? NaN) - (cpuBefore.postgres ?? NaN)) / 1_000;
    return { ms, ...(cpuMs >= 0 && { cpuMs }), blocks: blocks - before.blocks, slices };
  };
}

/** The statistics of a backend that has just ended its work come a second late. */
async function readBlocks(database: Database): Promise<Blocks> {
  await delay(1_500);
  const [row] = await database.query<Blocks>(measureBlocks);
  return row!;
}

async function interruptAudit({
  system,
  database,
  slices,
}: Omit<Measuring, 'terminal'> & { slices: number }): Promise<Audited & { at: number }> {
  const measure = await beginMeasure({ system, database });
  const ended = new AbortController();
  const position = async () => {
    const [row] = await database.query<{ next: number }>(
      'SELECT next_nth AS next FROM auditor.full_audit',
    );
    return row!.next;
  };
  const signal = AbortSignal.any([system.signal, ended.signal]);
  const underway = askAuditor(asking(system, { depth: 'full', signal })).catch(() => undefined);
  while ((await position()) <= slices / 2) await delay(100, undefined, { signal: system.signal });
  ended.abort();
  await underway;
  // The auditor goes on for as long as somebody might ask for it.
  await delay(abandonedMs, undefined, { signal: system.signal });
  return { ...(await measure()), at: (await position()) - 1 };
}

/** Looks beside the same load alone, while a full audit runs, and while one snapshot is held. */
async function measureLooks(
  { system, database, terminal }: Measuring,
  auditFully: (signal: AbortSignal) => Promise<unknown>,
): Promise<SizeReport['figures']['looks']> {
  const generator = await startHelper<LoadOrder, LoadReport>('load-generator.ts', system.signal);
  /** The work ends with the load, if it does not end before. */
  const beside = async (
    what: string,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<Looks> => {
    terminal.note(`looks of the dispatcher: ${what}`);
    const options = { seconds: loadSeconds, connections: 16, repeat: 1 };
    const order = orderFor({ system, options }, {});
    const ended = new AbortController();
    const working = work(AbortSignal.any([system.signal, ended.signal])).catch((error: unknown) => {
      if (!ended.signal.aborted) throw error;
    });
    const loaded = generator.ask(order).finally(() => ended.abort());
    const [looks, { accepted }] = await Promise.all([takeLooks(database, loaded), loaded, working]);
    return { ...looks, events: accepted };
  };
  try {
    const alone = await beside('alone', async () => undefined);
    const duringFull = await beside('while a full audit runs', auditFully);
    const duringSnapshot = await beside('while one snapshot is held', () =>
      database.transaction(async (tx) => {
        await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
        await tx.query('SELECT FROM ledger.outbox_horizon');
        await delay(loadSeconds * 1_000, undefined, { signal: system.signal });
      }),
    );
    return { alone, duringFull, duringSnapshot };
  } finally {
    await generator.stop();
  }
}

type Explained = { 'QUERY PLAN': [{ Plan: Record<string, number> }] };

async function takeLooks(
  database: Database,
  until: Promise<unknown>,
): Promise<Omit<Looks, 'events'>> {
  const ended = new AbortController();
  void until.finally(() => ended.abort()).catch(() => undefined);
  const blocks: number[] = [];
  while (!ended.signal.aborted) {
    const [row] = await database.query<Explained>(measureLook);
    const { Plan: plan } = row!['QUERY PLAN'][0];
    blocks.push(plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!);
    await delay(250);
  }
  blocks.sort((one, other) => one - other);
  return { median: blocks[Math.floor(blocks.length / 2)]!, max: blocks.at(-1)! };
}

/** The figures for people. */
export function renderSizes({ rig, size, figures }: SizeReport): string[] {
  const { first, next, interrupted, resumed, looks } = figures;
  const right = 'right' as const;
  const audits = [
    ['the first, which closes what it compares', first],
    ['the next', next],
    [`a full one, interrupted after slice ${interrupted.at}`, interrupted],
    ['the one that goes on from there', resumed],
  ] as const;
  const beside = [
    ['alone', looks.alone],
    ['while a full audit runs', looks.duringFull],
    ['while one snapshot is held', looks.duringSnapshot],
  ] as const;
  return [
    `${size.payments} payments in every layer, ${size.ledgerRows} whose days were reaped; ` +
      `${rig.cpu}, ${rig.cores} cores, ${rig.memoryGiB} GiB; ` +
      `${rig.commit}, load before ${rig.loadBefore}`,
    '',
    ...renderTable(
      [
        { head: 'audit' },
        ...['took', 'CPU of PostgreSQL', 'blocks', 'slices'].map((head) => ({
          head,
          align: right,
        })),
      ],
      audits.map(([name, { ms, cpuMs, blocks, slices }]) => {
        const cpu = cpuMs === undefined ? '' : formatSpan(cpuMs);
        return [name, formatSpan(ms), cpu, String(blocks), String(slices)];
      }),
    ),
    '',
    ...renderTable(
      [
        { head: 'blocks a look of the dispatcher reads' },
        ...['median', 'most', 'events meanwhile'].map((head) => ({ head, align: right })),
      ],
      beside.map(([name, { median, max, events }]) => {
        return [name, String(median), String(max), String(events)];
      }),
    ),
  ];
}
