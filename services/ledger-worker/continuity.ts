import type { Continuity, ServerLook } from '@triplock/ledger';
import type { Logger, Pass } from '@triplock/runtime';
import type { EventArchiveReader, Offsets, PassedRecords } from '@triplock/transport';
import type { WorkerMetrics } from './metrics.ts';
import type { PostAgain } from './batch/post-again.ts';

/** What looks whether the ledger has all that was told and accepted. */
export type ContinuityWatch = {
  continuity: Continuity;
  archive: EventArchiveReader;
  accepted: Pick<PassedRecords, 'passed' | 'readPassed' | 'readAgain'>;
  postAgain: PostAgain;
  /** Notes that commits since then are lost, before anything of them is decided anew. */
  noteLost(since: Date): Promise<void>;
  /** Another server than before is known to be whole: the provider is to be asked for disputes. */
  onServer?(): void;
  metrics: Pick<WorkerMetrics, 'setBack'>;
  logger: Logger;
  /** How long it is from one note to the next; 10 s by default. */
  noteEveryMs?: number;
};

/** The watch over the ledger's server. */
export type ContinuityWatcher = {
  /** To be run again and again. */
  pass: Pass;
  /** @throws one sentence that says what to do, while nothing can be decided. */
  requireWhole(): void;
};

// What a look at another server has to read of Kafka is what came in as long, twice of the archive.
const usualNoteEveryMs = 10_000;

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
 * What was posted and not told yet may be lacking all the same, and the workers' group has passed
 * its records. So on another server these are read once more, and what is lacking is posted: the
 * group's own place says too little, since a worker that stood still may commit only now what it
 * posted on the server before. That something is lost is noted before anybody may decide: the
 * provider did of it what it did, and is asked before others get what it gave.
 *
 * Disputes come by reports that the provider does not repeat once they were answered, and it is in
 * no topic that one came: the provider is asked for all since the note.
 *
 * Consumers keep in the same database what they have applied, and may have lost that of an event
 * which is there. So what was told since the note is published once more, and their inboxes know
 * what they have. They apply an event some time after it was told, and a server may have the note
 * and not that. So of the archive is noted how far it was one note before: a consumer that is not
 * further behind than that has applied what was told before, wherever the note is.
 *
 * A server that was left and is come back to, or that was put back with its memory, finds itself in
 * the row all the same. Whoever has seen a newer note than the one there takes it for another one:
 * offsets only grow. That is what one process remembers, some ten seconds of it, and what is
 * decided until it looks stays decided; so whoever leaves a server has to end it.
 *
 * While the server is known it is noted from time to time how far archive and group are. That is
 * asked of Kafka after the look and written on the same server alone, so whatever has the note, a
 * standby or a backup, has all that was there before it as well.
 */
export function watchContinuity(watch: ContinuityWatch): ContinuityWatcher {
  const { continuity, metrics, logger, noteEveryMs = usualNoteEveryMs } = watch;
  let unsure: string | undefined = notSeenYet;
  let noteAt = -Infinity;
  let server: string | undefined;
  let toldBefore: Offsets = new Map();
  const isOlder = rememberNotes();

  const pass = async (): Promise<number> => {
    const look = await continuity.look().catch((error: unknown) => {
      // What it was before may be another server's by now.
      unsure = `${notSeenYet}: ${error instanceof Error ? error.message : String(error)}`;
      throw error;
    });
    if (isOlder(look)) {
      logger.error('the ledger is on a server that it had left, or was put back with its memory');
      await continuity.doubt(look.server);
      return 1;
    }
    metrics.setBack.set(look.state === 'set-back' ? 1 : 0);
    switch (look.state) {
      case 'known':
        unsure = undefined;
        if (server !== look.server) watch.onServer?.();
        server = look.server;
        if (performance.now() < noteAt) return 0;
        toldBefore = await note(watch, look, toldBefore);
        noteAt = performance.now() + noteEveryMs;
        return 0;
      case 'unread':
        unsure = undefined;
        await readAgain(watch, look);
        return 1;
      case 'set-back':
        if (unsure !== setBack) logger.error(setBack);
        unsure = setBack;
        return 0;
      case 'unknown':
        unsure = notSeenYet;
        await compare(watch, look);
        // What came of it, by this worker or another one.
        return 1;
    }
    return look.state satisfies never;
  };
  return {
    pass,
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

/** Whether the archive was further in a note that was seen before. */
function rememberNotes(): (look: ServerLook) => boolean {
  let newest: ServerLook['until']['archived'] = new Map();
  return ({ state, until: { archived } }) => {
    const isOlder = [...newest].some(([partition, next]) => next > (archived.get(partition) ?? 0n));
    newest = archived;
    return isOlder && (state === 'known' || state === 'unread');
  };
}

/** Notes how far archive and group are. Gives the archive's end, for the next note. */
async function note(
  { continuity, archive, accepted }: ContinuityWatch,
  look: ServerLook,
  toldBefore: Offsets,
): Promise<Offsets> {
  const [end, posted] = await Promise.all([archive.end(), accepted.passed()]);
  const archived = heldBack(end, look.until.archived, toldBefore);
  await continuity.noteWhole(look, { archived, posted });
  return end;
}

/**
 * Of the archive's end what was its end one note before, or is noted already; of a partition of
 * which neither is known nothing. An archive that was made anew ends before both.
 */
function heldBack(end: Offsets, noted: Offsets, before: Offsets): Offsets {
  const held = new Map<number, bigint>();
  for (const [partition, last] of end) {
    const known = [noted, before].flatMap((offsets) => offsets.get(partition) ?? []);
    if (known.length === 0) continue;
    const furthest = known.reduce((one, other) => (one > other ? one : other));
    held.set(partition, furthest < last ? furthest : last);
  }
  return held;
}

/** Looks whether a server has all that was told since the note, and what it lacks beside that. */
async function compare(watch: ContinuityWatch, look: ServerLook): Promise<void> {
  const { continuity, archive, logger } = watch;
  const { server, until } = look;
  let lacking = 0;
  const { gone } = await archive.readFrom(until.archived, async (texts) => {
    lacking += await continuity.countLacking(texts);
    await continuity.publishAgain(texts);
  });
  if (lacking > 0 || gone > 0n) {
    const details = { lacking, gone: Number(gone) };
    logger.error(details, 'events that were told are not in the ledger');
    return continuity.noteSetBack(server);
  }
  await findLost(watch, look);
  // What is published again now was not applied yet, and may be lost once more.
  if (await continuity.noteWhole(look, { archived: until.archived })) {
    logger.info('the ledger is on another server, which has all that was told');
  }
}

async function findLost(
  { accepted, postAgain, noteLost, logger }: ContinuityWatch,
  { until }: ServerLook,
): Promise<void> {
  const lost = { records: 0, sinceMs: Infinity };
  // What is in hand comes again, in its order, before anything behind it is decided.
  await accepted.readPassed(until.posted, async (records) => {
    for (const { timestamp } of await postAgain.lackingOf(records)) {
      lost.records += 1;
      lost.sinceMs = Math.min(lost.sinceMs, Number(timestamp));
    }
  });
  if (lost.records === 0) return;
  logger.error(
    { records: lost.records },
    'what was posted is not in the ledger, and is again soon',
  );
  await noteLost(new Date(lost.sinceMs));
}

/**
 * Reads once more what was accepted since the note and posts what the ledger lacks of it. A crash
 * in between leaves the note as it is: whoever comes next begins again.
 */
async function readAgain(watch: ContinuityWatch, { server, until }: ServerLook): Promise<void> {
  const { continuity, accepted, postAgain } = watch;
  const posted = await accepted.readAgain(until.posted, async (records) => {
    await postAgain.post(await postAgain.lackingOf(records));
  });
  await continuity.notePosted(server, posted);
}
