import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import {
  askAuditor,
  formatSpan,
  renderTable,
  type AuditReport,
  type Terminal,
} from '@triplock/operator';
import { loadStatements, openForCommand, type Database } from '@triplock/postgres';
import { describeRig, type Rig } from '../systems.ts';
import { startHelper } from './helper-process.ts';
import type { LoadOrder, LoadReport } from './measurements.ts';
import { orderFor } from './system-run.ts';

const clones = [
  ...['makeAuditorAccepted', 'makeLedgerTransactions', 'makeLedgerEntries', 'makeLedgerOutbox'],
  ...['makeAuditorPublished', 'makeNotifierDeliveries', 'makeNotifierAttempts'],
  ...['makeNotifierInbox', 'makeNotifierCursors', 'makeSettlementInbox', 'makeSettlementCursors'],
  'makeSettlementBatches',
] as const;
const others = ['makeKeys', 'measureLook', 'measureBlocks'] as const;
const sql: Readonly<Record<string, string>> = loadStatements(import.meta.url, 'audit-at-size.sql', [
  ...clones,
  ...others,
]);

/** What an audit took. */
type Audited = { ms: number; blocks: number; slices: number };

/** Blocks that a dispatcher's look read: of the looks of some time the median and the most. */
type Looks = { median: number; max: number; events: number };

/** Figures of an audit at size, and whether no audit found drift. */
export type SizeReport = {
  ok: boolean;
  rig: Rig;
  payments: number;
  days: number;
  figures: {
    first: Audited;
    next: Audited;
    full: Audited;
    /** How far a full audit was when it was interrupted, and what the next took from there. */
    resumed: Audited & { from: string };
    looks: { alone: Looks; duringFull: Looks; duringSnapshot: Looks };
  };
};

const days = 10;
const cloneRows = 25_000;
const abandonedMs = 31_000;
const loadSeconds = 20;

/**
 * Makes so many payments in every layer of a system, audits them in every way, and reads what the
 * dispatcher's looks cost meanwhile.
 */
export async function runAuditAtSize(
  { system, terminal }: { system: System; terminal: Terminal },
  payments: number,
): Promise<SizeReport> {
  const rig = describeRig();
  const database = openForCommand({
    url: system.endpoints.postgres,
    applicationName: 'bench',
    statementTimeoutMs: 600_000,
  });
  try {
    const reports: AuditReport[] = [];
    const audit = (depth: 'some' | 'full', signal = system.signal) =>
      measureAudit({ system, database, reports }, { depth, signal });
    await makePayments({ system, database, terminal }, payments);
    terminal.note('the first audit, which closes what it compares');
    const first = await audit('some');
    terminal.note('the next audit');
    const next = await audit('some');
    terminal.note('a full audit');
    const full = await audit('full');
    terminal.note('a full audit that is interrupted, and the next');
    const resumed = await interruptAndResume({ system, database, audit });
    const looks = await measureLooks({ system, database, terminal }, (signal) =>
      audit('full', signal),
    );
    const ok = reports.every((report) => report.ok);
    return { ok, rig, payments, days, figures: { first, next, full, resumed, looks } };
  } finally {
    await database.close();
  }
}

type Measuring = { system: System; database: Database; terminal: Terminal };

async function makePayments(
  { system, database, terminal }: Measuring,
  payments: number,
): Promise<void> {
  const answer = await system
    .partner('acme')
    .pay('bench-model', { amount: 1_250, currency: 'EUR' });
  const { id } = JSON.parse(answer.body) as { id: string };
  const { ok } = await askAuditor(asking(system, { depth: 'some', waitMs: 60_000 }));
  if (!ok) throw new Error('the payment that the others are to be like did not come to its end');
  for (let first = 1; first <= payments; first += cloneRows) {
    system.signal.throwIfAborted();
    const last = Math.min(payments, first + cloneRows - 1);
    terminal.progress(`making payments: ${first} of ${payments}`);
    await database.transaction(async (tx) => {
      await tx.query('SET LOCAL session_replication_role = replica');
      await tx.query(sql['makeKeys']!, [id, first, last, payments, days]);
      for (const name of clones) await tx.query(sql[name]!, [id]);
    });
  }
  terminal.progress('what autovacuum would do');
  await database.query('VACUUM (ANALYZE)');
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
  const before = await readBlocks(database);
  const startedAt = performance.now();
  reports.push(await askAuditor(asking(system, asked)));
  const ms = performance.now() - startedAt;
  const after = await readBlocks(database);
  return { ms, blocks: after.blocks - before.blocks, slices: after.slices };
}

/** The statistics of a backend that has just ended its work come a second late. */
async function readBlocks(database: Database): Promise<Blocks> {
  await delay(1_500);
  const [row] = await database.query<Blocks>(sql['measureBlocks']!);
  return row!;
}

async function interruptAndResume({
  system,
  database,
  audit,
}: Omit<Measuring, 'terminal'> & {
  audit: (depth: 'full') => Promise<Audited>;
}): Promise<Audited & { from: string }> {
  const { slices } = await readBlocks(database);
  const interrupted = new AbortController();
  const position = async () => {
    const [row] = await database.query<{ next: number }>(
      'SELECT next_nth AS next FROM auditor.full_audit',
    );
    return row!.next;
  };
  const signal = AbortSignal.any([system.signal, interrupted.signal]);
  const underway = askAuditor(asking(system, { depth: 'full', signal })).catch(() => undefined);
  while ((await position()) <= slices / 2) await delay(100, undefined, { signal: system.signal });
  interrupted.abort();
  await underway;
  // The auditor goes on for as long as somebody might ask for it.
  await delay(abandonedMs, undefined, { signal: system.signal });
  const next = await position();
  return { ...(await audit('full')), from: `slice ${next} of ${slices}` };
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
    const amount = { seconds: loadSeconds, connections: 16 };
    const order = { ...orderFor(system, amount), targets: system.endpoints.gateways };
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
    const [row] = await database.query<Explained>(sql['measureLook']!);
    const { Plan: plan } = row!['QUERY PLAN'][0];
    blocks.push(plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!);
    await delay(250);
  }
  blocks.sort((one, other) => one - other);
  return { median: blocks[Math.floor(blocks.length / 2)]!, max: blocks.at(-1)! };
}

/** The figures for people. */
export function renderSizes({ rig, payments, figures }: SizeReport): string[] {
  const { first, next, full, resumed, looks } = figures;
  const right = 'right' as const;
  const audits = [
    ['the first, which closes what it compares', first],
    ['the next', next],
    ['a full one', full],
    [`one that goes on from ${resumed.from}`, resumed],
  ] as const;
  const beside = [
    ['alone', looks.alone],
    ['while a full audit runs', looks.duringFull],
    ['while one snapshot is held', looks.duringSnapshot],
  ] as const;
  return [
    `${payments} payments in every layer; ${rig.cpu}, ${rig.cores} cores, ${rig.memoryGiB} GiB; ` +
      `${rig.commit}, load before ${rig.loadBefore}`,
    '',
    ...renderTable(
      [{ head: 'audit' }, ...['took', 'blocks', 'slices'].map((head) => ({ head, align: right }))],
      audits.map(([name, { ms, blocks, slices }]) => {
        return [name, formatSpan(ms), String(blocks), String(slices)];
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
