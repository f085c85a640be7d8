import { formatSpan, pad, style } from '@triplock/operator';
import type { Guards } from './guards.ts';
import type { ScenarioReport } from './run-scenario.ts';
import type { Step } from './scenarios/scenario.ts';

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
