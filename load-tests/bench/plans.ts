import { globSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { System } from '@triplock/demo';
import { declarations } from '@triplock/launcher';
import { renderTable, style, type Terminal } from '@triplock/command';
import { columnLists } from '@triplock/ledger';
import {
  loadSql,
  loadStatements,
  openForCommand,
  statementsIn,
  type Database,
} from '@triplock/postgres';
import { describeRig, type Rig } from '../systems.ts';
import { payModel } from './audit-at-size.ts';
import { makePayments, type Size } from './many-payments.ts';

const sql = loadStatements(import.meta.url, 'plans.sql', [
  'makeOthers',
  'makeClaims',
  'listLarge',
  'listWhole',
  'listRanges',
]);

/** A statement of the services. */
type Statement = { name: string; file: string; text: string; schema: string };

/** The schema that the statements of a folder find their tables in; of a service its own. */
const schemas: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    declarations.flatMap(({ name, schema }) =>
      schema === undefined ? [] : [[`services/${name}`, schema]],
    ),
  ),
  'libs/stores/claims-postgres': 'claims',
  'libs/ledger': 'ledger',
  'libs/partners': 'partners',
  'libs/inbox': 'notifier',
  'libs/inspect': 'ledger',
  'services/operator': 'ledger',
};

/**
 * Statements that may read all of a table that grows, and why. Every other one has to find its rows
 * by an index, or among those that an index holds only until they are done with.
 */
const readsAll: Readonly<Record<string, string>> = {
  'transactions/isEmpty': 'looks at one row',
  'provider-journal/findDoubtful': 'compares all cards with what the provider says of them',
  'provider-journal/findEndedToReview': 'looks for what of all that ended was seen longest ago',
  'provider-journal/endWholeWalk': 'forgets what a walk over everything did not meet',
  'windows/beginning': 'once, before there is a slice',
  'lacking-events/lacking-events': 'an operator asks for it after a database was set back',
  'rewind/readEvidence': 'an operator asks for it after a database was set back',
  'operator-acts/recordAcknowledgement': 'an operator writes off what is lost',
};

const root = resolve(import.meta.dirname, '../..');

/**
 * Every statement of a service that is in a file, as `outbox/park` or, of a file alone,
 * `post/post`. The audit's checks are planned for the window that they look at, and its tests count
 * what they read.
 */
export function listStatements(): Statement[] {
  return Object.entries(schemas).flatMap(([folder, schema]) => {
    const files = globSync(`${folder}/**/*.sql`, { cwd: root });
    // The audit's checks, and what services and kinds bring to them, read all there is.
    const own = files.filter(
      (file) => !/migrations\/|auditor\/(?:checks|kinds)\/|\/audit\//.test(file),
    );
    return own.flatMap((file) => {
      const of = basename(file, '.sql');
      const text = loadSql(pathToFileURL(join(root, file)).href, basename(file), columnLists);
      const found = statementsIn(text);
      if (found.size === 0) return [{ name: `${of}/${of}`, file, text, schema }];
      return [...found].map(([name, statement]) => {
        return { name: `${of}/${name}`, file, text: statement, schema };
      });
    });
  });
}

/** A statement that reads all of something that grows. */
export type Finding = { statement: string; reads: string[] };

/** What `--plans` prints. */
export type PlansReport = {
  ok: boolean;
  rig: Rig;
  size: Size;
  statements: number;
  findings: readonly Finding[];
  /** That are excused, and need not be any more. */
  excusedForNothing: readonly string[];
};

/** Makes a database of that size, and looks how every statement would find its rows there. */
export async function runPlans(
  { system, terminal }: { system: System; terminal: Terminal },
  size: Size,
): Promise<PlansReport> {
  const rig = describeRig();
  const url = system.endpoints.postgres;
  const limits = { connectionsMax: 1, statementTimeoutMs: 3_600_000 };
  const database = openForCommand({ url, applicationName: 'bench', ...limits });
  try {
    const making = { url, terminal, signal: system.signal };
    await makeEveryLayer(making, { database, modelId: await payModel(system), size });
    const statements = listStatements();
    const all = await findReadingAll(database, statements);
    const findings = all.filter(({ statement }) => !(statement in readsAll));
    const found = new Set(all.map(({ statement }) => statement));
    const excusedForNothing = Object.keys(readsAll).filter((name) => !found.has(name));
    const ok = findings.length + excusedForNothing.length === 0;
    return { ok, rig, size, statements: statements.length, findings, excusedForNothing };
  } finally {
    await database.close();
  }
}

/** Payments of that size like the model, and beside them cards, refunds and claims. */
export async function makeEveryLayer(
  making: Parameters<typeof makePayments>[0],
  { database, modelId, size }: { database: Database; modelId: string; size: Size },
): Promise<void> {
  await makePayments(making, modelId, size);
  making.terminal.note('cards, refunds and claims beside them');
  await database.query(sql.makeOthers, [Math.ceil(size.payments / 10)]);
  await database.query(sql.makeClaims, [size.payments]);
  await database.query('VACUUM (ANALYZE)');
}

type Node = {
  'Node Type': string;
  Schema?: string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Filter?: string;
  Plans?: Node[];
};

/**
 * The plan is the generic one, which holds for any values (PostgreSQL 16, EXPLAIN). What a function
 * of a migration does is not in it: leases and reapers have tests of their own.
 */
async function findReadingAll(
  database: Database,
  statements: readonly Statement[],
): Promise<Finding[]> {
  const large = new Set((await database.query<{ name: string }>(sql.listLarge)).map(named));
  const whole = new Set((await database.query<{ name: string }>(sql.listWhole)).map(named));
  const ranges = new Set((await database.query<{ name: string }>(sql.listRanges)).map(named));
  const findings: Finding[] = [];
  for (const { name, text, schema } of statements) {
    const plan = await database.transaction(async (tx) => {
      await tx.query(`SET LOCAL search_path TO ${schema}`);
      // As the connections of the claims and the functions of the notifier have it.
      if (schema === 'claims') await tx.query('SET LOCAL enable_seqscan = off');
      const explain = `EXPLAIN (GENERIC_PLAN, VERBOSE, FORMAT JSON) ${text}`;
      const [row] = await tx.query<{ 'QUERY PLAN': [{ Plan: Node }] }>(explain);
      return row!['QUERY PLAN'][0].Plan;
    });
    const reads = nodesOf(plan).flatMap((node) => {
      const { 'Relation Name': table, 'Index Name': index, 'Index Cond': condition } = node;
      const full = `${node.Schema}.${table}`;
      if (node['Node Type'] === 'Seq Scan') return large.has(full) ? [full] : [];
      if (index === undefined) return [];
      const isUnbound = condition === undefined ? whole.has(index) : ranges.has(index);
      const readsAll = isUnbound && /^(\([\w.]+ IS NULL\))?$/.test(condition ?? '');
      return readsAll ? [`all of ${index}`] : [];
    });
    if (reads.length > 0) findings.push({ statement: name, reads: [...new Set(reads)] });
  }
  return findings;
}

const named = ({ name }: { name: string }) => name;

/** All but an index that only its first rows are taken from. */
function nodesOf(node: Node): Node[] {
  const below = (node.Plans ?? []).filter(
    (each) => node['Node Type'] !== 'Limit' || each.Filter !== undefined || each.Plans,
  );
  return [node, ...below.flatMap(nodesOf)];
}

/** The findings for people. */
export function renderPlans(report: PlansReport): string[] {
  const { rig, size, statements, findings, excusedForNothing } = report;
  const rows = [
    ...findings.map(({ statement, reads }) => [statement, reads.join(', ')]),
    ...excusedForNothing.map((name) => [name, 'nothing: it needs no excuse any more']),
  ];
  return [
    `${size.payments} payments in every layer, ${size.ledgerRows} whose days were reaped; ` +
      `${rig.cpu}, ${rig.cores} cores; ${rig.commit}`,
    '',
    ...(rows.length === 0 ? [] : renderTable([{ head: 'statement' }, { head: 'reads' }], rows)),
    report.ok
      ? style.good(
          `✔ ${statements} statements find their rows by an index, but for those that are excused`,
        )
      : style.bad('✘ a statement reads all of what grows'),
  ];
}
