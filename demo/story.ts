import { type AuditReport, renderAudit, style, type Terminal } from '@triplock/operator';
import { cardPayments } from './card-payments.ts';
import { firstPayment } from './first-payment.ts';
import { renderHeading, renderOutcome } from './print-scenario.ts';
import { runScenario, type ScenarioReport } from './run-scenario.ts';
import { storyScenarios } from './scenarios/all-scenarios.ts';
import { auditSystem, type System } from './system.ts';

/** The story as it went; printed by `--json`. */
export type StoryReport = {
  /** Every step held, and so did the audit. */
  ok: boolean;
  steps: readonly ScenarioReport[];
  audit: AuditReport;
};

const auditWaitMs = 60_000;

/** Tells the story from the first payment to the audit; a step that fails does not end it. */
export async function tellStory(system: System, terminal: Terminal): Promise<StoryReport> {
  const steps: ScenarioReport[] = [];
  for (const scenario of [firstPayment, cardPayments, ...storyScenarios]) {
    for (const line of renderHeading(scenario, steps.length + 1)) terminal.line(line);
    const step = await runScenario(scenario, system);
    for (const line of [...renderOutcome(step), '']) terminal.line(line);
    steps.push(step);
  }
  terminal.line(`${style.title(`${steps.length + 1}  audit`)} · every layer, to the minor unit`);
  const audit = await auditSystem(system, auditWaitMs);
  for (const line of renderAudit(audit)) terminal.line(line === '' ? '' : `   ${line}`);
  terminal.line();
  return { ok: audit.ok && steps.every(({ held }) => held), steps, audit };
}
