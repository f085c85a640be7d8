/** Work that becomes due by time. */
export type DueWork = {
  /** Milliseconds until the next pass has something to do; undefined: not by time alone. */
  nextInMs(): number | undefined;
  /** Does what is due, and says how much that was. */
  pass(): Promise<number>;
};

/** One pass after the other, each when it is due. */
export type Alarm = {
  /** Looks again when the next pass is due: after every change, and when the clock is moved. */
  look(): void;
  /** No further pass begins; resolves when the one under way has ended. */
  close(): Promise<void>;
};

/** A timer cannot be set further ahead than this. */
const furthestMs = 2_147_483_647;

/** Runs the work when it is due. A pass that throws ends the loop and is given to `onError`. */
export function createAlarm(work: DueWork, onError: (error: unknown) => void): Alarm {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let closed = false;

  const look = () => {
    if (closed || running !== undefined) return;
    clearTimeout(timer);
    const nextInMs = work.nextInMs();
    if (nextInMs === undefined) return;
    timer = setTimeout(start, Math.min(Math.max(nextInMs, 0), furthestMs));
  };
  const start = () => {
    running = work.pass().then(
      () => {
        running = undefined;
        look();
      },
      (error: unknown) => {
        closed = true;
        onError(error);
      },
    );
  };
  return {
    look,
    async close() {
      closed = true;
      clearTimeout(timer);
      await running;
    },
  };
}
