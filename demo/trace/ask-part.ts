import { unreachableParts } from '@triplock/launcher';
import type { NeededPart } from '../needed-parts.ts';
import type { System } from '../system.ts';

/** A part that could not be asked, in a sentence that ends in the next step. */
export type Unasked = { part: string; why: string };

/**
 * Asks a part if it does its work, and otherwise goes on with `otherwise`, having noted why in
 * `unasked`. What hangs is noticed before it is asked.
 */
export async function askPart<Answer>(
  { home, signal }: Pick<System, 'home' | 'signal'>,
  { part, otherwise, unasked }: { part: NeededPart; otherwise: Answer; unasked: Unasked[] },
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const away = await unreachableParts({ home, only: [part] });
  if (away.length > 0) {
    unasked.push(...away.map((why) => ({ part, why })));
    return otherwise;
  }
  try {
    return await ask();
  } catch (error) {
    if (signal.aborted) throw error;
    unasked.push({ part, why: `${part}: ${(error as Error).message}` });
    return otherwise;
  }
}
