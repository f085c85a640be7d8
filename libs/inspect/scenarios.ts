import { readFileSync } from 'node:fs';

/** A failure that can be made to happen, as `npm run scenario -- --list --json` prints it. */
export type KnownScenario = {
  name: string;
  failure: string;
  absorbedBy: string;
  /** The guard of which it shows best what escapes without it. */
  shows?: string;
};

const file = new URL('scenarios.json', import.meta.url);
const scenarios = JSON.parse(readFileSync(file, 'utf8')) as KnownScenario[];

/** Every scenario, in the order in which they teach. */
export function knownScenarios(): readonly KnownScenario[] {
  return scenarios;
}

/** The guards that a scenario can go without. */
export function missingGuardNames(): readonly string[] {
  return scenarios.flatMap(({ shows }) => shows ?? []);
}

/** What load can be asked for: as much as a laptop bears for as long as somebody looks on. */
export const loadLimits = {
  ratePerSecond: { min: 1, max: 500 },
  seconds: { min: 5, max: 600 },
  duplicatesPercent: { min: 0, max: 90 },
} as const;
