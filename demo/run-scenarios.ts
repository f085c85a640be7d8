import { formatSpan, type Terminal } from '@triplock/operator';
import { renderHeading, renderOutcome } from './print-scenario.ts';
import { runScenario, type ScenarioReport } from './run-scenario.ts';
import type { Scenario } from './scenarios/scenario.ts';
import type { System } from './system.ts';

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
