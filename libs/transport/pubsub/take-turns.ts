/** Runs work in turn within its key, and pieces of different keys side by side. */
export type Turns = (key: string, work: () => Promise<void>) => void;

/** At most `max` pieces run at once. `work` must not reject. An empty key waits for no other. */
export function takeTurns(max: number): Turns {
  const lastOfKey = new Map<string, Promise<void>>();
  const waiting: (() => void)[] = [];
  let running = 0;

  const limited = async (work: () => Promise<void>): Promise<void> => {
    if (running === max) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    await work();
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  };
  return (key, work) => {
    if (key === '') return void limited(work);
    const before = lastOfKey.get(key) ?? Promise.resolve();
    const turn = before.then(() => limited(work));
    lastOfKey.set(key, turn);
    void turn.then(() => {
      if (lastOfKey.get(key) === turn) lastOfKey.delete(key);
    });
  };
}
