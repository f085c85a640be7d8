import { count, formatSpan, style } from '@triplock/operator';
import { renderGuards } from '../print-scenario.ts';
import type { Scenario } from '../scenarios/scenario.ts';
import type { MissingGuard } from './missing-guards.ts';
import type { WithoutReport } from './run-without.ts';

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
