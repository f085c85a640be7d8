import { count, formatSpan, style, type Terminal } from '@triplock/command';
import type { Guards } from '../effects.ts';
import { renderGuards, runScenario, type Scenario } from '../run-scenario.ts';
import type { System } from '../system.ts';
import {
  describeSurvey,
  findEscapes,
  keepJournal,
  takeSurvey,
  type Escape,
  type Exchange,
  type Survey,
} from './survey.ts';
import { inNamespace, type MissingGuard } from './missing-guards.ts';

/** A scenario as it went without one guard; printed by `--json`. */
export type WithoutReport = {
  without: MissingGuard['name'];
  scenario: string;
  failure: string;
  /** What was done, in order. */
  did: readonly string[];
  /** What the scenario complained of, if it did. */
  complaint?: string;
  survey: Survey;
  guards: Guards;
  /** What the missing guard would have caught. */
  escaped: readonly Escape[];
  /** How many duplicates that is. */
  duplicates: number;
  tookMs: number;
};

/**
 * Runs the very scenario that holds with all guards, in a system beside the given one that lacks
 * one, and counts what came of it there. Nothing of that system is left.
 */
export async function runWithout(
  guard: MissingGuard,
  { scenario, main, terminal }: { scenario: Scenario; main: System; terminal: Terminal },
): Promise<WithoutReport> {
  const startedMs = performance.now();
  return inNamespace(main, { guard, terminal }, async (system) => {
    const journal: Exchange[] = [];
    const report = await runScenario(scenario, keepJournal(system, journal));
    const survey = await takeSurvey(system);
    const escaped = await findEscapes(guard, { system, journal });
    return {
      without: guard.name,
      scenario: scenario.name,
      failure: scenario.failure,
      did: report.did,
      ...(report.broken && { complaint: report.broken.why }),
      survey,
      guards: describeSurvey({ survey, journal }),
      escaped,
      duplicates: escaped.reduce((sum, { duplicates }) => sum + duplicates, 0),
      tookMs: Math.round(performance.now() - startedMs),
    };
  });
}

/** What is about to be tried, without which guard, and where. */
export function renderWithoutHeading(
  { name, failure, absorbedBy }: Scenario,
  guard: MissingGuard,
): string[] {
  return [
    `${style.title(`${name} without ${guard.name}`)} · ${failure}`,
    style.faint(`   with all guards absorbed by ${absorbedBy}`),
    style.faint(`   in a namespace of its own, without-${guard.name}, which is dropped afterwards`),
  ];
}

/** What came of it: a line for each guard, and the duplicates that escaped one by one. */
export function renderWithout(report: WithoutReport): string[] {
  const { without, guards, escaped, complaint, tookMs } = report;
  const away = { ...guards, [without]: `${style.bad('taken away')}: ${guards[without]}` };
  return [
    ...renderGuards(away),
    `   ${verdictOf(report)}` + style.faint(` in ${formatSpan(tookMs)}`),
    ...escaped.map(({ id, what }) => `     ${id}: ${what}`),
    ...(complaint === undefined ? [] : [style.faint(`   ${withoutEvidence(complaint)}`)]),
    style.faint(`   without-${without} is dropped: processes, database, topics, claims`),
  ];
}

function verdictOf({ duplicates, complaint }: WithoutReport): string {
  if (duplicates > 0) return style.bad(`${count(duplicates, 'duplicate')} escaped`);
  if (complaint !== undefined) return style.bad('✘ none escaped, and the scenario did not hold');
  return style.good('✔ none escaped: the other guards held');
}

/** The evidence is for machines: all of it is in the lines above. */
function withoutEvidence(complaint: string): string {
  return complaint.split('; saw ')[0]!;
}
