import { setTimeout as delay } from 'node:timers/promises';

/**
 * Asks a question for all who wait together, every `everyMs` at most. Who comes while it is under
 * way waits for the next one, which all of them share: whoever gets an answer came before it was
 * asked for.
 */
export function askInTurn<Answer>(
  question: () => Promise<Answer>,
  everyMs: number,
): () => Promise<Answer> {
  let next: Promise<Answer> | undefined;
  let free: Promise<unknown> = Promise.resolve();
  const begin = () => {
    next = undefined;
    const answer = question();
    free = Promise.allSettled([answer, delay(everyMs)]);
    return answer;
  };
  return () => (next ??= free.then(begin));
}
