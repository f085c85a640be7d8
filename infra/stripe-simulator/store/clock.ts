/** The simulator's clock: the machine's, moved by an offset, so that a day passes in a moment. */
export type Clock = {
  /** Milliseconds since 1970, as the simulator sees it. */
  now(): number;
  offsetMs(): number;
  setOffsetMs(offsetMs: number): void;
};

/** A clock that runs with the machine's until it is moved. */
export function createClock(machine: () => number = Date.now): Clock {
  let offset = 0;
  return {
    now: () => machine() + offset,
    offsetMs: () => offset,
    setOffsetMs(offsetMs) {
      offset = offsetMs;
    },
  };
}
