import { LauncherError } from '../errors.ts';
import { withoutPassword } from '../parts/part.ts';

/**
 * Work on a database elsewhere. Its operator acts on what it said, not on where in this code that
 * arrived.
 *
 * @throws LauncherError that names the database, without its password.
 */
export async function atDatabase<Result>(
  where: string,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LauncherError) throw error;
    throw new LauncherError(`${withoutPassword(where)}: ${wordsOf(error)}`, { cause: error });
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A name with several addresses, such as localhost, fails once for each and has no words itself.
  if (error instanceof AggregateError) return error.errors.map(wordsOf).join(', ');
  const { message, cause } = error;
  return cause instanceof Error ? `${message}: ${wordsOf(cause)}` : message;
}
