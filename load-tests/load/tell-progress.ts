import { waiting } from './waiting.ts';
import type { Reading } from './watch-system.ts';

/** The last of some readings in one line: what comes in, and what waits where. */
export function describeReadings(readings: readonly [Reading, ...Reading[]]): string {
  const [first] = readings;
  const now = readings.at(-1)!;
  const before = readings.at(-2) ?? now;
  const span = now.second - before.second;
  const rate = span > 0 ? Math.max(0, now.accepted - before.accepted) / span : 0;
  return (
    `${Math.round(now.second)} s, ${rate.toFixed(0)} accepted/s, waiting: ` +
    `${waiting(first, now, ['accepted', 'posted'])} to be posted, ` +
    `${waiting(first, now, ['posted', 'published'])} to be published, ` +
    `${waiting(first, now, ['published', 'delivered'])} to be delivered`
  );
}
