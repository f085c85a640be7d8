import { type System, auditSystem } from '@triplock/demo';
import { renderTable, style, type Terminal } from '@triplock/command';
import type { Rig, RunOnly } from '../systems.ts';
import { openServerCounts } from './counts.ts';
import {
  measuredServices,
  watchStage,
  type BenchOptions,
  type MeasuredService,
} from './measurements.ts';
import { expectDrained, orderFor, runLoad, withHelpers, type Bench } from './runs.ts';
import { warmUp } from './schedule.ts';

/** What came of an outage of one service: how fast its backlog was done, by all whom it passes. */
export type Outage = {
  away: MeasuredService;
  of: number;
  perSecond: number;
  /** What everything together took before, from the gateway to the webhook, and held. */
  steadyPerSecond: number;
  /** The audit found no drift. */
  ok: boolean;
};

/** What `--backlog` prints. */
export type BacklogReport = { ok: boolean; rig: Rig; outages: readonly Outage[] };

/** Drained ÷ steady: after an outage there has to be room to catch up. */
const ratioWanted = 1.5;
const auditWaitMs = 300_000;
const chunkSeconds = 5;

type Drained = { system: System; terminal: Terminal; runOnly: RunOnly; options: BenchOptions };

/** Whose outages are measured: an outage of what a service stands on leaves the same backlog. */
export const mayBeAway = measuredServices.slice(1);

/**
 * The rate that everything together holds, and then that at which so many payments are done that
 * came while one service behind the gateway was away.
 */
export async function drainBacklog(
  { system, terminal, runOnly, options }: Drained,
  { away, count }: { away: MeasuredService; count: number },
): Promise<Outage> {
  const counts = await openServerCounts(system);
  try {
    const own = { runOnly, counts };
    return await withHelpers({ system, terminal, options, own }, async (bench) => {
      await warmUp(bench, measuredServices);
      terminal.note('everything together');
      const { run: steady } = await runLoad(bench, {}, measuredServices);
      const drained = await runOutage(bench, runOnly, { away, count });
      terminal.note('audit');
      const { ok } = await auditSystem(system, auditWaitMs);
      const steadyPerSecond = (steady.load.accepted * 1_000) / (steady.deliveredMs ?? NaN);
      return { ...drained, steadyPerSecond, ok };
    });
  } finally {
    await counts.close();
  }
}

/** The rate counts from the first that it does, cold as it is, until the last is done by all. */
async function runOutage(
  bench: Bench,
  runOnly: RunOnly,
  { away, count }: { away: MeasuredService; count: number },
): Promise<Pick<Outage, 'away' | 'of' | 'perSecond'>> {
  const { system, terminal, generator } = bench;
  terminal.note(`${away} away, while ${count} payments come`);
  const others = measuredServices.filter((name) => name !== away);
  await runOnly(others);
  const drained = await expectDrained(system, others);
  let sent = 0;
  while (sent < count) {
    sent += (await generator.ask(orderFor(bench, { seconds: chunkSeconds }))).accepted;
    terminal.progress(`${sent} of ${count}`);
  }
  await runOnly(measuredServices);
  terminal.note(`${away} back, to a backlog of ${sent}`);
  // A process of its own, whose counters begin with it.
  const looks = await watchStage(system, away, { from: 0, count: sent });
  await drained(sent);
  const first = looks.find(({ done }) => done > 0) ?? looks[0]!;
  const tookMs = performance.now() - first.atMs;
  return { away, of: sent, perSecond: ((sent - first.done) * 1_000) / tookMs };
}

/** The backlogs for people. */
export function renderBacklogs({ rig, outages, ok }: BacklogReport): string[] {
  const right = (head: string) => ({ head, align: 'right' as const });
  const rows = outages.map(({ away, of, steadyPerSecond, perSecond }) => {
    const ratio = perSecond / steadyPerSecond;
    const goal = ratio >= ratioWanted ? '' : style.bad(`below ${ratioWanted}`);
    const rates = [steadyPerSecond.toFixed(0), perSecond.toFixed(0), ratio.toFixed(2)];
    return [away, `${of}`, ...rates, goal];
  });
  const rates = [right('steady/s'), right('drained/s'), right('÷ steady')];
  const columns = [right('backlog'), ...rates, { head: '' }];
  return [
    style.faint(`${rig.cpu}, ${rig.cores} cores; ${rig.commit}; load before ${rig.loadBefore}`),
    'steady: everything together, until delivered',
    '',
    ...renderTable([{ head: 'was away' }, ...columns], rows),
    '',
    ok ? style.good('✔ no drift') : style.bad('✘ drift'),
  ];
}
