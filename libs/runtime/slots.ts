/**
 * The one way to bound how much is done at once: a semaphore. Whoever takes a slot releases it,
 * also when the work failed; nothing does that by itself.
 */
export type Slots = {
  /**
   * Waits for a slot. Callers of different names get slots in turn and those of one name in their
   * order, so that a busy caller keeps no other from its work.
   */
  take(caller?: string): Promise<void>;
  /**
   * Takes up to `wanted` at once, of those that are free, and returns how many. None is free while
   * anybody waits.
   */
  takeFree(wanted: number): number;
  /** Gives one back, to the next who waits. */
  release(): void;
  /** How many could be taken at once. */
  free(): number;
};

/** Opens `slotsMax` slots, all of them free. */
export function openSlots(slotsMax: number): Slots {
  /** By caller; who got one last is at the end. */
  const waiting = new Map<string, (() => void)[]>();
  let taken = 0;

  const takeFree = (wanted: number): number => {
    const some = Math.max(0, Math.min(wanted, slotsMax - taken));
    taken += some;
    return some;
  };
  return {
    take: (caller = '') => {
      if (takeFree(1) === 1) return Promise.resolve();
      return new Promise((granted) => {
        const queue = waiting.get(caller);
        if (queue === undefined) waiting.set(caller, [granted]);
        else queue.push(granted);
      });
    },
    takeFree,
    release: () => {
      const next = waiting.entries().next().value;
      if (next === undefined) {
        taken -= 1;
        return;
      }
      // The slot passes on and stays taken.
      const [caller, queue] = next;
      waiting.delete(caller);
      const granted = queue.shift()!;
      if (queue.length > 0) waiting.set(caller, queue);
      granted();
    },
    free: () => slotsMax - taken,
  };
}
