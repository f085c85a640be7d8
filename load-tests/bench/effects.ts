import { setTimeout as delay } from 'node:timers/promises';
import type { System, Terminal } from '@triplock/demo';
import { loadSql } from '@triplock/postgres';

const countEffects = loadSql(import.meta.url, 'sql/count-effects.sql');

/** How far payments came, counted since the beginning, at one moment of the database's clock. */
export type Effects = {
  now: Date;
  settled: number;
  published: number;
  lastPublished: Date | null;
  delivered: number;
  lastDelivered: Date | null;
  /** What the auditor saw of it, accepted and published. */
  recorded: number;
  witnessed: number;
};

/** Counts all effects there are. */
export async function readEffects({ database }: Pick<System, 'database'>): Promise<Effects> {
  const [row] = await database.query<Effects>(countEffects);
  return row!;
}

// Asked of PostgreSQL, because asking the services for it would cost the CPU that is measured.
const askEveryMs = 500;
// A drain that stands still for so long has lost something; the audit can tell what.
const standstillMs = 60_000;

const layers = ['settled', 'published', 'delivered', 'recorded', 'witnessed'] as const;

/**
 * Waits until `accepted` payments more than `before` have had all their effects.
 *
 * @throws when nothing moves any more and some are missing, with how far the others came.
 */
export async function untilDrained(
  system: Pick<System, 'database' | 'signal'>,
  wanted: { before: Effects; accepted: number; terminal: Terminal },
): Promise<Effects> {
  const { before, accepted, terminal } = wanted;
  let told = '';
  let movedAt = performance.now();
  for (;;) {
    const now = await readEffects(system);
    const grown = layers.map((layer) => [layer, now[layer] - before[layer]] as const);
    if (grown.every(([, count]) => count >= accepted)) return now;
    const progress = grown.map(([layer, count]) => `${count} ${layer}`).join(', ');
    terminal.progress(`draining: of ${accepted} accepted ${progress}`);
    if (progress !== told) [told, movedAt] = [progress, performance.now()];
    if (performance.now() - movedAt > standstillMs) {
      const seconds = standstillMs / 1_000;
      throw new Error(`nothing moved for ${seconds} s: of ${accepted} accepted ${progress}`);
    }
    await delay(askEveryMs, undefined, { signal: system.signal });
  }
}
