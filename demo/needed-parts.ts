import { LauncherError, UsageError, unreachableParts } from '@triplock/launcher';
import type { System } from './system.ts';

/** What a command cannot do its work without. */
export type NeededPart = 'redis' | 'dynamodb' | 'kafka' | 'postgres' | 'pubsub' | 'catcher';

/**
 * Does the work if the parts that it needs do theirs.
 *
 * @throws UsageError that names what is away and the next step, within some seconds; also when it
 * went away during the work and the work failed.
 */
export async function withParts<Result>(
  { home, signal }: Pick<System, 'home' | 'signal'>,
  only: readonly NeededPart[],
  work: () => Promise<Result>,
): Promise<Result> {
  await refuseWithout({ home, only });
  try {
    return await work();
  } catch (error) {
    if (signal.aborted || error instanceof LauncherError) throw error;
    await refuseWithout({ home, only }, error);
    throw error;
  }
}

async function refuseWithout(
  question: { home: string; only: readonly NeededPart[] },
  cause?: unknown,
): Promise<void> {
  const away = await unreachableParts(question);
  if (away.length > 0) throw new UsageError(away.join('\n'), { cause });
}
