import { CommandError } from '@triplock/command';
import { waysTo } from './look-first.mjs';
import type { PartName } from './parts/part-names.ts';

/** A part that cannot be had here as a process. */
export class PartMissing extends CommandError {
  override name = 'PartMissing';
}

/** Names the part, why it cannot be had, and the two ways to get it. */
export function missingPart(part: PartName, because: string): PartMissing {
  const { title, install, given } = waysTo(part);
  const ways = [`  install it here: ${install}`, `  or give one that runs elsewhere: ${given}`];
  return new PartMissing([`${title}: ${because}. Two ways to get it:`, ...ways].join('\n'));
}

/** No container engine answers where one is needed. */
export class NoEngine extends CommandError {}
