import type { Gauge } from '@triplock/runtime';

/** Places for reads that wait. */
export type WaitSeats = {
  isFree(): boolean;
  /** Holds a place until the work is over. */
  hold<Result>(work: Promise<Result>): Promise<Result>;
};

// Each asks the ledger up to four times a second: together a small part of what it can answer.
// Who comes when all seats are taken is answered at once, which RFC 7240 allows.
const seatsMax = 200;

/** The seats of one gateway, for all its routes together. */
export function openWaitSeats(taken: Pick<Gauge, 'set'>): WaitSeats {
  let waiting = 0;
  return {
    isFree: () => waiting < seatsMax,
    hold: (work) => {
      taken.set((waiting += 1));
      return work.finally(() => taken.set((waiting -= 1)));
    },
  };
}
