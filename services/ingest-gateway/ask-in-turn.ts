import { setTimeout as delay } from 'node:timers/promises';

// A part is asked for all waiting requests together, and this often at most.
const askEveryMs = 100;

/** Who comes while the question is under way waits for the next one, which all of them share. */
export function askInTurn<Answer>(question: () => Promise<Answer>): () => Promise<Answer> {
  let next: Promise<Answer> | undefined;
  let free: Promise<unknown> = Promise.resolve();
  const begin = () => {
    next = undefined;
    const answer = question();
    free = Promise.allSettled([answer, delay(askEveryMs)]);
    return answer;
  };
  return () => (next ??= free.then(begin));
}
