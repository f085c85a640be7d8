/** A piece of work, and what it has its turn in. `work` must not reject. */
export type Turn = { key: string; work: () => Promise<void> };

/**
 * Runs pieces in turns of their key, and keys side by side; at most `max` pieces run at once. A
 * turn has all pieces of the key that wait: they begin together, in their order, and what comes
 * meanwhile waits until the last of them has ended. A piece with an empty key waits for no other.
 */
export function takeTurns(max: number): (turns: readonly Turn[]) => void {
  /** By key, for each whose turn it is or that waits for a place. */
  const waitingOf = new Map<string | symbol, Turn[]>();
  const ready: (string | symbol)[] = [];
  let places = max;

  const begin = () => {
    while (places > 0 && ready.length > 0) void take(ready.shift()!);
  };
  const run = async ({ work }: Turn): Promise<void> => {
    await work();
    places += 1;
    begin();
  };
  const take = async (key: string | symbol): Promise<void> => {
    const waiting = waitingOf.get(key)!;
    const together = waiting.splice(0, places);
    places -= together.length;
    await Promise.all(together.map(run));
    if (waiting.length > 0) ready.push(key);
    else waitingOf.delete(key);
    begin();
  };
  return (turns) => {
    for (const turn of turns) {
      const key = turn.key === '' ? Symbol() : turn.key;
      const waiting = waitingOf.get(key);
      if (waiting) waiting.push(turn);
      else {
        waitingOf.set(key, [turn]);
        ready.push(key);
      }
    }
    begin();
  };
}
