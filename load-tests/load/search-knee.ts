import type { Terminal } from '@triplock/demo';
import { findKnee, type Knee, type Step } from './find-knee.ts';
import type { K6Run } from './run-k6.ts';

/** One rate, sent; and the wait until nothing of it is left to do. */
export type Tries = {
  terminal: Terminal;
  send(rate: number): Promise<K6Run>;
  drain(): Promise<void>;
};

/**
 * Sends rate after rate until the knee is found. What comes back is judged as one run: all counts
 * together, with the thresholds, the latencies and the plots of the knee.
 */
export async function searchKnee(
  first: number,
  { terminal, send, drain }: Tries,
): Promise<{ run: K6Run; knee: Knee }> {
  const runs: (K6Run & { rate: number })[] = [];
  const knee = await findKnee(first, async (rate): Promise<Step> => {
    terminal.note(`trying ${rate}/s`);
    const startedAt = performance.now();
    const run = await send(rate);
    const loadedAt = performance.now();
    await drain();
    runs.push({ ...run, rate });
    const step = stepOf(rate, run, (loadedAt - startedAt) / 1_000);
    const drained = Math.round((performance.now() - loadedAt) / 1_000);
    const verdict = step.holds ? 'holds' : `does not hold (${step.missed.join(', ')})`;
    terminal.note(
      `${rate}/s ${verdict}: p99 ${step.p99Ms.toFixed(0)} ms, drained ${drained} s later`,
    );
    return step;
  });
  const best = runs.findLast(({ rate }) => rate === knee.rate) ?? runs[0]!;
  return { knee, run: { ...best, tallies: addTallies(runs) } };
}

function stepOf(rate: number, run: K6Run, tookSeconds: number): Step {
  const missed = run.thresholds.filter(({ holds }) => !holds);
  return {
    rate,
    holds: missed.length === 0,
    missed: missed.map(({ metric, expression }) => `${metric} ${expression}`),
    p99Ms: run.acceptMs['p(99)'],
    acceptedPerSecond: (run.tallies['payments_accepted'] ?? 0) / tookSeconds,
  };
}

function addTallies(runs: readonly K6Run[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { tallies } of runs) {
    for (const [name, count] of Object.entries(tallies)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}
