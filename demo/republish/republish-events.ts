import type { Outbox } from '@triplock/ledger';

/**
 * What republishing works with. `waiting` counts older events that no dispatcher has published yet.
 */
export type RepublishParts = {
  outbox: Pick<Outbox, 'republish'>;
  waiting: () => Promise<number>;
  /** Resolves when it is time to look again; rejects when the command is to end. */
  rest: () => Promise<unknown>;
  progress: (state: { republished: number; waiting: number }) => void;
};

/**
 * Small enough that an event of now waits a second or so behind it: dispatchers take the oldest of
 * a bucket first.
 */
const batchRowsMax = 1_000;

/**
 * Gives events back to the dispatchers batch by batch, each after the one before was published, and
 * resolves with their number when all are. Interrupted, it leaves nothing half done: what waits is
 * published, the rest was not touched.
 */
export async function republishEvents(
  { outbox, waiting, rest, progress }: RepublishParts,
  range: { since: Date; until: Date },
): Promise<number> {
  let republished = 0;
  for (;;) {
    const rows = await outbox.republish({ ...range, rowsMax: batchRowsMax });
    republished += rows;
    for (let left = await waiting(); left > 0; left = await waiting()) {
      progress({ republished, waiting: left });
      await rest();
    }
    if (rows === 0) return republished;
  }
}
