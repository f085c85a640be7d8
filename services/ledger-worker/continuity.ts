import type { Continuity, ServerLook } from '@triplock/ledger';
import type { Logger, Pass } from '@triplock/runtime';
import type { ArchiveRead, EventArchiveReader } from '@triplock/transport';
import type { WorkerMetrics } from './metrics.ts';

/** What looks whether the ledger has all that was told. */
export type ContinuityWatch = {
  continuity: Continuity;
  archive: EventArchiveReader;
  metrics: Pick<WorkerMetrics, 'setBack'>;
  logger: Logger;
};

/** The watch over the ledger's server. */
export type ContinuityWatcher = {
  /** To be run again and again. */
  pass: Pass;
  /** @throws one sentence that says what to do, while nothing can be decided. */
  requireWhole(): void;
};

// What a look at another server has to read of the archive is what came in as long.
const noteEveryMs = 10_000;

/**
 * Watches over the ledger's server. PostgreSQL may fail over to a standby that was behind, or be
 * restored, while services are up: what is pending there was decided before, and told. So the
 * ledger refuses each step of a worker on a server that was not seen yet (ledger.continuity), until
 * a look at the archive of what was told has found all of it there. A restart or a failover that
 * lost nothing goes on after that by itself. One that lacks something waits for `rewind`.
 *
 * Nothing is told between the two unseen: a dispatcher archives an event before it publishes it,
 * and in between asks whether its server answers still. So an event that only the old server had is
 * either in the archive when a new one is looked at, or published by nobody.
 *
 * While the server is known it is noted from time to time how far the archive is. That is asked of
 * Kafka after the look and written on the same server alone, so whatever has the note, a standby or
 * a backup, has each event before it as well.
 */
export function watchContinuity(watch: ContinuityWatch): ContinuityWatcher {
  const { continuity, archive, metrics, logger } = watch;
  let unsure: string | undefined = notSeenYet;
  let noteAt = -Infinity;
  return {
    pass: async () => {
      const look = await continuity.look();
      if (look.state === 'known') {
        unsure = undefined;
        metrics.setBack.set(0);
        if (performance.now() < noteAt) return 0;
        await continuity.noteWhole(look.server, await archive.end());
        noteAt = performance.now() + noteEveryMs;
        return 0;
      }
      if (look.state === 'set-back') {
        if (unsure !== setBack) logger.error(setBack);
        unsure = setBack;
        metrics.setBack.set(1);
        return 0;
      }
      unsure = notSeenYet;
      const { lacking, read } = await compare(watch, look);
      if (lacking > 0 || read.gone > 0n) {
        logger.error(
          { lacking, gone: Number(read.gone) },
          'events that were told are not in the ledger',
        );
        await continuity.noteSetBack(look.server);
      } else if (await continuity.noteWhole(look.server, read.end)) {
        logger.info('the ledger is on another server, which has all that was told');
      }
      // What came of it, by this worker or another one.
      return 1;
    },
    requireWhole() {
      if (unsure !== undefined) throw new Error(unsure);
    },
  };
}

const notSeenYet =
  'this server of the ledger is not yet known to have all that was told: nothing is decided before';
const setBack =
  'the ledger lacks what partners were told, because its database was set back: nothing is decided ' +
  'before every service was stopped and `npm run rewind` was run (docs/operating.md, "Backup and restore")';

async function compare(
  { continuity, archive }: ContinuityWatch,
  { archivedUntil }: ServerLook,
): Promise<{ lacking: number; read: ArchiveRead }> {
  let lacking = 0;
  const read = await archive.readFrom(archivedUntil, async (texts) => {
    lacking += await continuity.countLacking(texts);
  });
  return { lacking, read };
}
