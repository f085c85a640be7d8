import type { Reading } from './watch-system.ts';

/** A reading in one line: what comes in, and what waits where. */
export function describeReading(now: Reading, before: Reading | undefined): string {
  const span = before === undefined ? 0 : now.second - before.second;
  const rate = span > 0 ? (now.accepted - before!.accepted) / span : 0;
  const count = (more: number, less: number) => Math.max(0, more - less);
  return (
    `${Math.round(now.second)} s, ${rate.toFixed(0)} accepted/s, waiting: ` +
    `${count(now.accepted, now.posted)} to be posted, ` +
    `${count(now.posted, now.published)} to be published, ` +
    `${count(now.published, now.delivered)} to be delivered`
  );
}
