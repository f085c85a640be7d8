import { setTimeout as delay } from 'node:timers/promises';
import { auditSystem, type System } from '@triplock/demo';
import type { AuditReport, Terminal } from '@triplock/operator';
import { describeRig, type Rig } from '../rig.ts';
import type { BenchOptions } from './options.ts';
import { figuresOf, type Figures } from './cost-sheet.ts';
import { measuredServices, type MeasuredService, type Repetition } from './measurements.ts';
import { runEmptyPost, runSystem, withHelpers, type IdleLoad } from './system-run.ts';
import { sampleServices } from './usage.ts';

/** What `--json` prints. */
export type BenchReport = {
  /** The audit found no drift. */
  ok: boolean;
  rig: Rig;
  settings: BenchOptions & { replicas: number };
  figures: Figures;
  audit: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  /** What the figures are made of. */
  repetitions: readonly Repetition[];
};

const auditWaitMs = 120_000;

/**
 * Loads the empty POST and the system in turn, so that whatever else the machine does meets both,
 * and audits the system at the end.
 */
export async function runBench(
  { system, terminal }: { system: System; terminal: Terminal },
  options: BenchOptions,
): Promise<BenchReport> {
  const rig = describeRig();
  const { seconds, connections, repeat } = options;
  return withHelpers({ system, terminal }, async (bench) => {
    // Code that was never hot is compiled now, and not in the first run.
    const short = { connections, seconds: Math.max(1, Math.min(5, Math.floor(seconds / 4))) };
    terminal.note('warming up');
    await runEmptyPost(bench, short);
    await runSystem(bench, { ...short, idle: noIdle });
    terminal.note('measuring what the services use with nothing to do');
    const idle = await measureIdle(system, short.seconds);

    const amount = { connections, seconds };
    const repetitions: Repetition[] = [];
    terminal.note(`empty POST: ${seconds} s`);
    let before = await runEmptyPost(bench, amount);
    for (let n = 1; n <= repeat; n += 1) {
      terminal.note(`system, ${n} of ${repeat}: ${seconds} s and until all is delivered`);
      const run = await runSystem(bench, { ...amount, idle });
      terminal.note(`empty POST, ${n} of ${repeat}: ${seconds} s`);
      const after = await runEmptyPost(bench, amount);
      repetitions.push({ before, system: run, after });
      before = after;
    }
    terminal.note('audit');
    const { ok, counts, drift } = await auditSystem(system, auditWaitMs);
    return {
      ok,
      rig,
      settings: { ...options, replicas: system.endpoints.gateways.length },
      figures: figuresOf(repetitions),
      audit: { ok, counts, drift },
      repetitions,
    };
  });
}

const noIdle = Object.fromEntries(measuredServices.map((name) => [name, 0])) as Record<
  MeasuredService,
  number
>;

/** Looks for so many seconds at services that have nothing to do. */
async function measureIdle(system: System, seconds: number): Promise<IdleLoad> {
  const before = await sampleServices(system);
  const startedAt = performance.now();
  await delay(seconds * 1_000, undefined, { signal: system.signal });
  const after = await sampleServices(system);
  const tookMicros = (performance.now() - startedAt) * 1_000;
  const loads = measuredServices.map((name) => {
    return [name, (after[name].cpuMicros - before[name].cpuMicros) / tookMicros] as const;
  });
  return Object.fromEntries(loads) as IdleLoad;
}
