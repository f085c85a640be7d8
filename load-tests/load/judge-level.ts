import type { Check } from './judge-run.ts';
import type { LoadScenario } from './load-scenarios.ts';
import { waiting } from './waiting.ts';
import type { Reading } from './watch-system.ts';

/** What was asked for, and what was read meanwhile. */
export type LevelEvidence = {
  level: LoadScenario['level'];
  rate: number;
  seconds: number;
  readings: readonly Reading[];
};

/** A webhook may be read as delivered two readings later than its payment as accepted. */
const slackSeconds = 4;
/** Before that a process is still taking the memory that it will work with. */
const memoryFromSeconds = 600;
const memoryGrowth = 1.25;

/**
 * Whether what waits, and on a long run the memory of every service, stays where it was, or is back
 * there at the end. What comes after the load is not looked at: everything is delivered then.
 */
export function judgeLevel({ level, rate, seconds, readings }: LevelEvidence): Check[] {
  if (level === undefined) return [];
  const part = (from: number, to: number) =>
    readings.filter(({ second }) => second >= from * seconds && second <= to * seconds);
  const [before, after] =
    level === 'stays' ? [part(0.25, 0.5), part(0.75, 1)] : [part(0, 0.25), part(0.9, 1)];
  // A load of a few seconds is over between two readings, and shows no level.
  if (before.length === 0 || after.length === 0) return [];
  const waits = (some: readonly Reading[]) =>
    median(some.map((each) => waiting(readings[0]!, each, ['accepted', 'delivered'])));
  const checks = [
    atMost('waiting at the end of the load', waits(after), waits(before) + rate * slackSeconds),
  ];
  if (level === 'returns' || seconds < memoryFromSeconds) return checks;
  const memory = Object.keys(after.at(-1)!.rssMiB).map((service) => {
    const takes = (some: readonly Reading[]) =>
      median(some.map(({ rssMiB }) => rssMiB[service] ?? 0));
    return atMost(`MiB of ${service} at the end`, takes(after), takes(before) * memoryGrowth);
  });
  return [...checks, ...memory];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

function atMost(what: string, found: number, limit: number): Check {
  const most = Math.round(limit);
  return { what, expected: `at most ${most}`, found: Math.round(found), holds: found <= most };
}
