import { databaseErrorKind } from '@triplock/postgres';
import { UnpostableError } from '../ledger.ts';

/**
 * Runs a write and says of its error whether the input is to blame: what PostgreSQL can never
 * store becomes an UnpostableError, everything else is thrown as it came.
 */
export async function blamingInput<Result>(write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (error) {
    if (databaseErrorKind(error) !== 'data') throw error;
    throw new UnpostableError((error as Error).message, { cause: error });
  }
}
