import { rmSync } from 'node:fs';
import {
  bringUp,
  type BringUp,
  dropNames,
  homeWithout,
  namesIn,
  takeDown,
  withLock,
} from '@triplock/launcher';
import type { Terminal } from '@triplock/operator';
import { loadSql, openForCommand } from '@triplock/postgres';
import { openSystem, type System } from '../system.ts';
import type { MissingGuard } from './missing-guards.ts';

const keepEarlierDeliveries = loadSql(import.meta.url, 'keep-earlier-deliveries.sql');

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
    bringUp({ ...options, settings: guard.settings, beside: { parts, names } });
  const drop = async () => {
    await takeDown({ home, data: 'forget', report });
    await dropNames(parts, names);
    rmSync(home, { recursive: true, force: true });
  };
  return withLock(`${home}.lock`, { report, signal }, async () => {
    await drop();
    try {
      const own = await bringUpBeside({ home, replicas: 1, report, signal });
      await runAsOwner(own.postgres, [keepEarlierDeliveries, ...guard.sql]);
      const system = openSystem(own, { terminal, signal, names, bringUp: bringUpBeside });
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
