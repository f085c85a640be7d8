import { CommandError, formatSpan, pad, style, type Terminal } from '@triplock/command';
import type { Guards } from './effects.ts';
import { BrokenPromise } from './promises.ts';
import { withReport, type System } from './system.ts';

/** A step of the story; one without a failure has nothing to absorb. */
export type Step = Omit<Scenario, 'absorbedBy'> & { absorbedBy?: string };

/** A failure that is made to happen for real, and what must then still hold. */
export type Scenario = {
  name: string;
  failure: string;
  /** The guard that absorbs it; of what none can, who sees it. */
  absorbedBy: string;
  /**
   * Makes it happen and looks from outside at what came of it.
   *
   * @throws BrokenPromise when an effect was lost or doubled, FaultDidNotFire when the fault was
   * not really there and the run proves nothing.
   */
  run(system: System): Promise<Observation>;
};

/** What was seen: the payments it was tried on, and a line for each guard. */
export type Observation = { ids: readonly string[]; guards: Guards };

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
    const reporting = withReport(system, (line) => did.push(line));
    return report({ held: true, observation: await scenario.run(reporting) });
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
    throw new CommandError(`${why}\nand then the system did not come back: ${what}`);
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

/** Runs them one after the other and prints each. */
export async function runScenarios(
  scenarios: readonly Scenario[],
  { system, terminal }: { system: System; terminal: Pick<Terminal, 'line'> },
): Promise<ScenarioReport[]> {
  const startedMs = performance.now();
  const reports: ScenarioReport[] = [];
  for (const scenario of scenarios) {
    for (const line of renderHeading(scenario)) terminal.line(line);
    const report = await runScenario(scenario, system);
    for (const line of [...renderOutcome(report), '']) terminal.line(line);
    reports.push(report);
  }
  const held = reports.filter((report) => report.held).length;
  const took = formatSpan(performance.now() - startedMs);
  if (scenarios.length > 1) terminal.line(`${held} of ${reports.length} held, in ${took}`);
  return reports;
}

const guardNames: readonly (readonly [keyof Guards, string])[] = [
  ['claims', 'guard 1 claims'],
  ['ledger', 'guard 2 ledger'],
  ['inbox', 'guard 3 inbox'],
  ['webhook', 'webhook'],
];
const nameColumns = 15;

/** What is about to be tried; `number` counts the steps of a story. */
export function renderHeading({ name, failure, absorbedBy }: Step, number?: number): string[] {
  const title = number === undefined ? name : `${number}  ${name}`;
  const heading = `${style.title(title)} · ${failure}`;
  if (absorbedBy === undefined) return [heading];
  return [heading, style.faint(`   absorbed by ${absorbedBy}`)];
}

/** What came of a scenario: a line for each guard, or what broke and where to look. */
export function renderOutcome({ observation, broken, tookMs }: ScenarioReport): string[] {
  if (observation !== undefined) {
    return [
      ...renderGuards(observation.guards),
      style.good('   ✔ held') + style.faint(` in ${formatSpan(tookMs)}`),
    ];
  }
  const { why, ids, logs } = broken!;
  return [
    style.bad(`   ✘ ${why}`),
    ...(ids.length > 0 ? [`     payments: ${ids.join(' ')}`] : []),
    `     logs: ${logs}`,
  ];
}

/** What happened at each guard. */
export function renderGuards(guards: Guards): string[] {
  return guardNames.map(
    ([guard, name]) => `   ${style.name(pad(name, nameColumns))} ${guards[guard]}`,
  );
}
