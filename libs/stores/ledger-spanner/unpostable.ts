import { WriteRefusedError } from './spanner/errors.ts';
import { UnpostableError } from '@triplock/ledger';

/** Runs a write and says of its error whether the input is to blame. */
export async function blamingInput<Result>(write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof WriteRefusedError)) throw error;
    throw new UnpostableError(error.message, { cause: error });
  }
}

/**
 * Refuses a text that the ledgers do not hold alike: on the way to Spanner half a surrogate would
 * silently become another character, and PostgreSQL stores no NUL.
 *
 * @throws UnpostableError
 */
export function refuseBadTexts(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value === 'object' && value !== null) {
      refuseBadTexts([...Object.keys(value), ...Object.values(value as Record<string, unknown>)]);
    }
    if (typeof value !== 'string') continue;
    if (!value.isWellFormed()) throw new UnpostableError('a text holds half a surrogate pair');
    if (value.includes('\0')) throw new UnpostableError('a text holds a NUL character');
  }
}
