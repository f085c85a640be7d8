import { LauncherError } from '../launcher-error.ts';
import { withoutPassword } from '../parts/start-parts.ts';

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
    const { message, cause } = error as Error;
    const because = cause instanceof Error ? `: ${cause.message}` : '';
    throw new LauncherError(`${withoutPassword(where)}: ${message}${because}`, { cause: error });
  }
}
