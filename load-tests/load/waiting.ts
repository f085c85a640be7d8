import type { Reading } from './watch-system.ts';

/** The stages that count what they have done. */
export type Stage = 'accepted' | 'posted' | 'published' | 'delivered';

/** How many that came since the first reading are through one stage and not through a later one. */
export function waiting(first: Reading, now: Reading, [from, to]: readonly [Stage, Stage]): number {
  return Math.max(0, now[from] - first[from] - (now[to] - first[to]));
}
