import { renderHeading, renderOutcome, renderSkipped } from './print-scenario.ts';
import { runScenario, type ScenarioReport } from './run-scenario.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { skipUnfit, type SkippedScenario } from './scenarios/skip-unfit.ts';
import type { System } from './system.ts';
import type { Terminal } from './terminal/terminal.ts';
import { count, formatSpan } from './terminal/words.ts';

/**
 * Runs them one after the other and prints each; those that are about another claim store than the
 * system's are left out and said to be.
 */
export async function runScenarios(
  scenarios: readonly Scenario[],
  { system, terminal }: { system: System; terminal: Pick<Terminal, 'line'> },
): Promise<(ScenarioReport | SkippedScenario)[]> {
  const startedMs = performance.now();
  const reports: ScenarioReport[] = [];
  const all: (ScenarioReport | SkippedScenario)[] = [];
  for (const scenario of scenarios) {
    for (const line of renderHeading(scenario)) terminal.line(line);
    const unfit = skipUnfit(scenario, system.endpoints);
    if (unfit === undefined) {
      const report = await runScenario(scenario, system);
      for (const line of renderOutcome(report)) terminal.line(line);
      reports.push(report);
      all.push(report);
    } else {
      for (const line of renderSkipped(unfit)) terminal.line(line);
      all.push(unfit);
    }
    terminal.line();
  }
  const held = reports.filter((report) => report.held).length;
  const left = all.length - reports.length;
  const skipped = left === 0 ? '' : `, ${count(left, 'other')} skipped`;
  const took = formatSpan(performance.now() - startedMs);
  const sum = `${held} of ${reports.length} held${skipped}, in ${took}`;
  if (scenarios.length > 1) terminal.line(sum);
  return all;
}
