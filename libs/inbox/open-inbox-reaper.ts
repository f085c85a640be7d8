import type { Queryable } from '@triplock/postgres';
import type { Logger, Pass } from '@triplock/runtime';
import { checkRetention, whyTooShort, type Sources } from './check-retention.ts';
import type { ReapedInbox } from './inbox.ts';
import { readOutboxRetention } from './postgres/read-outbox-retention.ts';

/** So few that a batch is done in some milliseconds and holds up no event. */
const batchRowsMax = 500;
const hourMs = 3_600_000;

/** An event may be received before the outbox has it as published: its inbox row is older. */
const markedLateMs = hourMs;

/** What a consumer's inbox is reaped by. */
export type InboxReaperParts = {
  inbox: Pick<ReapedInbox, 'reap'>;
  /** In which the dispatchers say how long they keep events. */
  database: Queryable;
  keepInboxHours: number;
  /** For how long the consumer's subscription can deliver an event again. */
  subscription: Sources['subscription'];
  logger: Logger;
};

/**
 * Makes sure that the inbox outlives everything that can bring an event again, and gives the pass
 * that forgets. The outbox is asked again on each pass, because dispatchers may change.
 *
 * @throws with one sentence when something outlives the inbox, or when the role may not ask the
 * outbox: the service must not run so.
 */
export async function openInboxReaper(parts: InboxReaperParts): Promise<Pass> {
  const { database, subscription, keepInboxHours, logger } = parts;
  const sources = async () => ({ subscription, outbox: await readOutboxRetention(database) });
  checkRetention(keepInboxHours, { ...(await sources()), logger });
  return async () => reapInbox(parts, await sources());
}

/**
 * Takes one small batch of inbox rows out that are older than they are kept, and returns how many.
 * The inbox forgets nothing while something would outlive it or the outbox does not tell, and no
 * event that the outbox still has.
 */
async function reapInbox(
  { inbox, keepInboxHours, logger }: InboxReaperParts,
  sources: Sources,
): Promise<number> {
  const { outbox } = sources;
  if (outbox.outcome === 'unknown') {
    const { why } = outbox;
    logger.warn({ why }, 'the inbox forgets nothing for now: the outbox reports no retention');
    return 0;
  }
  const problem = whyTooShort(keepInboxHours, sources);
  if (problem !== undefined) {
    logger.error(
      { problem },
      'the inbox forgets nothing for now: events could come again after it forgot them',
    );
    return 0;
  }
  const keepMs = Math.max(keepInboxHours * hourMs, outbox.oldestMs + markedLateMs);
  return inbox.reap({ keepMs, rowsMax: batchRowsMax });
}
