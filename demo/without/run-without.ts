import type { Terminal } from '@triplock/operator';
import type { Guards } from '../guards.ts';
import { runScenario } from '../run-scenario.ts';
import type { Scenario } from '../scenarios/scenario.ts';
import type { System } from '../system.ts';
import { describeSurvey } from './describe-survey.ts';
import { findEscapes, type Escape } from './find-escapes.ts';
import { inNamespace } from './in-namespace.ts';
import { keepJournal, type Exchange } from './keep-journal.ts';
import type { MissingGuard } from './missing-guards.ts';
import { takeSurvey, type Survey } from './take-survey.ts';

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
