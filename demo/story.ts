import type { Endpoints } from '@triplock/launcher';
import {
  type AuditReport,
  renderAudit,
  renderTable,
  style,
  type Terminal,
} from '@triplock/operator';
import { renderHeading, renderOutcome, runScenario, type ScenarioReport } from './run-scenario.ts';
import { storyScenarios } from './scenarios/all.ts';
import { cardPayments, firstPayment } from './scenarios/opening.ts';
import { auditSystem, type System } from './system.ts';

/** The story as it went; printed by `--json`. */
type StoryReport = {
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

/** The end of a story, and where its system goes on running. */
export type StoryEnd = { story: StoryReport; endpoints: Endpoints };

/** What a person who saw the story can try next, ready to be pasted. */
export function renderInvitation(
  { story, endpoints }: StoryEnd,
  home: string | undefined,
): string[] {
  const acme = endpoints.partners.find(({ id }) => id === 'acme')!;
  const run = (command: string, words = '') => {
    const rest = [words, ...(home === undefined ? [] : [`--home '${home}'`])].join(' ').trim();
    return `npm run ${command}${rest === '' ? '' : ` -- ${rest}`}`;
  };
  const killed = story.steps.find(({ name }) => name === 'dispatcher-killed');
  const [seen] = killed?.observation?.ids ?? [];
  const offers = [
    [run('trace', 'acme my-first-payment'), 'follow it through every layer'],
    ...(seen === undefined ? [] : [[run('trace', seen), 'one whose event was published twice']]),
    [run('scenario', 'worker-killed'), 'break something again; --list shows what'],
    [run('audit'), 'reconcile every layer'],
    [`${endpoints.gateway}/docs`, 'read about the API'],
  ];
  const [, ...lines] = renderTable([{ head: '' }, { head: '' }], offers);
  return [
    `${style.title('It stays up until Ctrl-C.')} From another terminal, send this twice:`,
    '',
    `   curl -i ${endpoints.gateway}/v1/payments \\`,
    `     -H 'Authorization: Bearer ${acme.apiKey}' \\`,
    `     -H 'Idempotency-Key: my-first-payment' -H 'Content-Type: application/json' \\`,
    `     -d '{"amount":1250,"currency":"EUR"}'`,
    '',
    ...lines.map((line) => `   ${line}`),
    '',
  ];
}
