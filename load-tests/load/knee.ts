import type { Terminal } from '@triplock/operator';
import type { K6Run } from './k6.ts';

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
    const result = step.holds ? 'holds' : `does not hold (${step.missed.join(', ')})`;
    terminal.note(
      `${rate}/s ${result}: p99 ${step.p99Ms.toFixed(0)} ms, drained ${drained} s later`,
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

/** What one rate came to. */
export type Step = {
  rate: number;
  holds: boolean;
  /** What did not hold, in k6's words. */
  missed: readonly string[];
  p99Ms: number;
  acceptedPerSecond: number;
};

/** The highest rate that held, and every step on the way to it. */
export type Knee = { rate: number; steps: readonly Step[] };

// Finer than that, two runs on one machine differ by more than two rates do.
const precision = 0.1;
const ratesMax = 20_000;

/**
 * Finds the highest rate that holds: half as much again until one does not, then the middle between
 * the highest that held and the lowest that did not, until they are within a tenth. A rate that
 * does not hold is tried once more, because machines stutter. 0 when not even the first one held.
 */
export async function findKnee(
  first: number,
  tryRate: (rate: number) => Promise<Step>,
): Promise<Knee> {
  const steps: Step[] = [];
  const holds = async (rate: number) => {
    for (const _ of ['once', 'once more']) {
      const step = await tryRate(rate);
      steps.push(step);
      if (step.holds) return true;
    }
    return false;
  };
  let held = 0;
  let broke = first;
  while (broke <= ratesMax && (await holds(broke))) {
    held = broke;
    broke = Math.ceil(broke * 1.5);
  }
  while (held > 0 && broke - held > Math.max(1, held * precision)) {
    const middle = Math.round((held + broke) / 2);
    if (await holds(middle)) held = middle;
    else broke = middle;
  }
  return { rate: held, steps };
}
