import { LauncherError } from '@triplock/launcher';
import { BrokenPromise } from './broken-promise.ts';
import type { Observation, Step } from './scenarios/scenario.ts';
import { overhear, type System } from './system.ts';

/** One scenario as it went; printed by `--json`. */
export type ScenarioReport = {
  name: string;
  failure: string;
  absorbedBy?: string;
  /** Whether the fault fired and every promise held. */
  held: boolean;
  /** What was done, in order. */
  did: readonly string[];
  tookMs: number;
  observation?: Observation;
  /** What went wrong, on which payments, and where to look. */
  broken?: { why: string; ids: readonly string[]; logs: string };
};

/**
 * Runs a scenario to its end. One that fails is put right again as far as it broke processes, so
 * that the next one finds a whole system.
 *
 * @throws when it was interrupted, or when the system does not come back.
 */
export async function runScenario(scenario: Step, system: System): Promise<ScenarioReport> {
  const { name, failure, absorbedBy } = scenario;
  const did: string[] = [];
  const startedMs = performance.now();
  const report = (rest: Pick<ScenarioReport, 'held' | 'observation' | 'broken'>) => {
    const tookMs = Math.round(performance.now() - startedMs);
    const absorbed = absorbedBy === undefined ? {} : { absorbedBy };
    return { name, failure, ...absorbed, did, tookMs, ...rest };
  };
  try {
    const overheard = overhear(system, (line) => did.push(line));
    return report({ held: true, observation: await scenario.run(overheard) });
  } catch (error) {
    system.signal.throwIfAborted();
    const broken = explain(error, system);
    await putRight(system, broken.why);
    return report({ held: false, broken });
  }
}

async function putRight(system: System, why: string): Promise<void> {
  try {
    await system.restore();
  } catch (error) {
    system.signal.throwIfAborted();
    const what = error instanceof Error ? error.message : String(error);
    throw new LauncherError(`${why}\nand then the system did not come back: ${what}`);
  }
}

function explain(error: unknown, { home }: System): NonNullable<ScenarioReport['broken']> {
  const reasons: string[] = [];
  for (let each = error; each instanceof Error; each = each.cause) {
    reasons.push(each.message || each.name);
  }
  const ids = error instanceof BrokenPromise ? error.ids : [];
  return { why: reasons.join('; because: ') || String(error), ids, logs: `${home}/logs` };
}
