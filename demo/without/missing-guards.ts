import { rmSync } from 'node:fs';
import {
  bringUp,
  dropNames,
  homeWithout,
  namesIn,
  takeDown,
  withLock,
  type BringUp,
} from '@triplock/launcher';
import { UsageError, type Terminal } from '@triplock/command';
import type { KnownScenario } from '@triplock/inspect';
import { loadStatements, openForCommand } from '@triplock/postgres';
import type { Guards } from '../effects.ts';
import { allScenarios } from '../scenarios/all.ts';
import { openSystem, type System } from '../system.ts';

const statements = loadStatements(import.meta.url, 'missing-guards.sql', [
  'keepEarlierDeliveries',
  'forgetPayments',
  'forgetEvents',
]);

/** A guard that can be taken away, and how. */
export type MissingGuard = {
  name: Exclude<keyof Guards, 'webhook'>;
  /** The scenario that shows best what then escapes. */
  scenario: string;
  /** What tells the services to go without it. */
  settings: NonNullable<BringUp['settings']>;
  /** What takes it out of the database. */
  sql: readonly string[];
};

/** Every guard, taken away where it lives: in the gateway, in the ledger, at the receiver. */
export const missingGuards: readonly MissingGuard[] = [
  {
    name: 'claims',
    scenario: 'retry',
    settings: { 'ingest-gateway': { CLAIMS: 'none' } },
    sql: [],
  },
  {
    name: 'ledger',
    scenario: 'kafka-replayed',
    settings: {},
    sql: [statements.forgetPayments],
  },
  {
    name: 'inbox',
    scenario: 'downstream-replayed',
    settings: {},
    sql: [statements.forgetEvents],
  },
];

/** Every scenario as `npm run scenario -- --list --json` prints it, and the console shows it. */
export function listScenarios(): KnownScenario[] {
  return allScenarios.map(({ name, failure, absorbedBy }) => {
    const guard = missingGuards.find(({ scenario }) => scenario === name);
    return { name, failure, absorbedBy, ...(guard && { shows: guard.name }) };
  });
}

/** @throws UsageError that gives the names when there is no such guard. */
export function chooseGuard(name: string): MissingGuard {
  const found = missingGuards.find((guard) => guard.name === name);
  if (found !== undefined) return found;
  const names = missingGuards.map((guard) => guard.name).join(', ');
  throw new UsageError(`there is no guard '${name}' to go without; guards: ${names}`);
}

/**
 * Has a second system work without one guard: its own services, database, topics, subscriptions and
 * claims, on the parts of the first one, which it leaves alone. However `work` ends, nothing of the
 * second system is left; what a run that was killed had left goes with the next one.
 */
export async function inNamespace<Result>(
  { home: mainHome, endpoints, signal }: System,
  { guard, terminal }: { guard: MissingGuard; terminal: Terminal },
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const namespace = `without-${guard.name}`;
  const names = namesIn(namespace);
  const { redis, kafka, postgres, pubsub } = endpoints;
  const parts = { redis, kafka, postgres, pubsub };
  const report = (line: string) => terminal.progress(line);
  const home = homeWithout(mainHome, guard.name);
  const bringUpBeside = (options: BringUp) =>
    bringUp({
      ...options,
      settings: { ...options.settings, ...guard.settings },
      beside: { parts, names },
    });
  const drop = async () => {
    await takeDown({ home, data: 'forget', report });
    await dropNames(parts, names);
    rmSync(home, { recursive: true, force: true });
  };
  return withLock(`${home}.lock`, { report, signal }, async () => {
    await drop();
    try {
      // While nothing runs: services lock these tables too, in other orders, which is a deadlock.
      const { postgres: database } = await bringUpBeside({ home, only: [], report, signal });
      await runAsOwner(database, [statements.keepEarlierDeliveries, ...guard.sql]);
      const own = await bringUpBeside({ home, replicas: 1, report, signal });
      const system = await openSystem(own, { terminal, signal, names, bringUp: bringUpBeside });
      return await work(system).finally(() => system.close());
    } finally {
      terminal.progress(`dropping ${namespace}`);
      await drop();
    }
  });
}

async function runAsOwner(url: string, statements: readonly string[]): Promise<void> {
  const owner = openForCommand({
    url,
    applicationName: 'demo',
    connectionsMax: 1,
  });
  try {
    for (const statement of statements) await owner.query(statement);
  } finally {
    await owner.close();
  }
}
