import { backoffMs } from '@triplock/runtime';

/** Nacks that wait a little. */
export type PausedNacks = {
  /** Gives the message back after a pause that grows with every nack in a row of its key. */
  pause(ackId: string, key: string): void;
  /** Something of the key succeeded: its next pause is short again. */
  succeeded(key: string): void;
  /** Gives back at once what waits, and from now on without a pause. */
  end(): void;
};

/**
 * The broker sends a message that was given back again at once, and a handler that waits for a
 * database, or for an earlier message, would be asked without rest.
 */
export function pauseNacks(giveBack: (ackId: string) => void): PausedNacks {
  const inARow = new Map<string, number>();
  const pausing = new Map<string, NodeJS.Timeout>();
  let ended = false;

  const give = (ackId: string) => {
    clearTimeout(pausing.get(ackId));
    pausing.delete(ackId);
    giveBack(ackId);
  };
  return {
    pause: (ackId, key) => {
      if (ended) return give(ackId);
      const before = inARow.get(key) ?? 0;
      inARow.set(key, before + 1);
      const pauseMs = backoffMs(before, { firstMs: 50, maxMs: 5_000 });
      pausing.set(ackId, setTimeout(give, pauseMs, ackId));
    },
    succeeded: (key) => void inARow.delete(key),
    end: () => {
      ended = true;
      for (const ackId of pausing.keys()) give(ackId);
    },
  };
}
