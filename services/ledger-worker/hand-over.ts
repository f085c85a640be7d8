import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '@triplock/runtime';
import type { Places } from './places.ts';

/** What work gets with its place. */
export type Turn = {
  /** It had to wait for its place, so another worker may have done it meanwhile. */
  waited: boolean;
  /** The batch need not wait any longer: it is handed over, and goes on. */
  letGo(): void;
  /** Rests without a place, so that others may ask meanwhile, and waits for one again. */
  rest(ms: number): Promise<void>;
};

/** Work for batches that asks the provider, and never holds up a batch for long. */
export type HandOver = {
  /**
   * Waits for a place, and then for the end of the work, up to the hand-over each. `handed-over`:
   * the work goes on, or was not begun, and whoever looks after pending rows does the rest.
   *
   * @throws what the work throws in time.
   */
  inTime<Fate>(txnId: string, work: (turn: Turn) => Promise<Fate>): Promise<Fate | 'handed-over'>;
  /** Waits for the work under way. */
  close(): Promise<void>;
};

/** What it stands on; times in milliseconds. */
export type HandOverParts = {
  /** Shared with the resolver; work keeps its place after it was handed over, but for its rests. */
  places: Places;
  handOverMs: number;
  logger: Logger;
};

/** Has work done for batches, in time or after they have gone on. */
export function openHandOver({ places, handOverMs, logger }: HandOverParts): HandOver {
  const underWay = new Set<Promise<unknown>>();
  const follow = (work: Promise<unknown>) => {
    const ended = work.then(
      () => undefined,
      () => undefined,
    );
    underWay.add(ended);
    void ended.then(() => underWay.delete(ended));
  };
  const rest = async (ms: number) => {
    places.giveBack();
    await delay(ms);
    await places.take('batch');
  };
  return {
    inTime: async (txnId, work) => {
      const begun = Promise.withResolvers<'begun'>();
      const gone = Promise.withResolvers<'handed-over'>();
      const letGo = () => gone.resolve('handed-over');
      let abandoned = false;
      const waited = places.free() === 0;
      const workInPlace = async () => {
        await places.take('batch');
        begun.resolve('begun');
        try {
          return abandoned ? 'handed-over' : await work({ waited, letGo, rest });
        } finally {
          places.giveBack();
        }
      };
      const done = workInPlace();
      follow(done);
      abandoned = (await Promise.race([begun.promise, after(handOverMs)])) === 'handed-over';
      if (abandoned) return 'handed-over';
      const inTime = await Promise.race([done, gone.promise, after(handOverMs)]);
      if (inTime !== 'handed-over') return inTime;
      // It goes on. What it throws is no news to the batch, and the row is due for another try.
      done.catch((err: unknown) => logger.warn({ err, txnId }, 'handed-over work failed'));
      return 'handed-over';
    },
    close: async () => void (await Promise.all(underWay)),
  };
}

async function after(ms: number): Promise<'handed-over'> {
  await delay(ms, undefined, { ref: false });
  return 'handed-over';
}
