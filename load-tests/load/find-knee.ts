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
