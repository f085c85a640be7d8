import type { Logger } from '@triplock/runtime';
import { whyTooShort, type Sources } from './check-retention.ts';
import type { ReapedInbox } from './inbox.ts';

/** So few that a batch is done in some milliseconds and holds up no event. */
const batchRowsMax = 500;
const hourMs = 3_600_000;

/** An event may be received before the outbox has it as published: its inbox row is older. */
const markedLateMs = hourMs;

/** What a consumer's inbox is reaped by. */
export type InboxReaperParts = {
  inbox: Pick<ReapedInbox, 'reap'>;
  keepInboxHours: number;
  /** What can bring an event again; asked on each pass, because dispatchers may change. */
  sources: () => Promise<Sources>;
  logger: Logger;
};

/**
 * Takes one small batch of inbox rows out that are older than they are kept, and returns how many.
 * The inbox forgets nothing while something would outlive it or the outbox does not tell, and no
 * event that the outbox still has.
 */
export async function reapInbox(parts: InboxReaperParts): Promise<number> {
  const { inbox, keepInboxHours, logger } = parts;
  const sources = await parts.sources();
  const { outbox } = sources;
  if (outbox.outcome === 'unknown') {
    const { why } = outbox;
    logger.warn({ why }, 'the inbox forgets nothing for now: the outbox reports no retention');
    return 0;
  }
  const problem = whyTooShort(keepInboxHours, sources);
  if (problem !== undefined) {
    logger.error({ problem }, 'the inbox forgets nothing for now: something would outlive it');
    return 0;
  }
  const keepMs = Math.max(keepInboxHours * hourMs, outbox.oldestMs + markedLateMs);
  return inbox.reap({ keepMs, rowsMax: batchRowsMax });
}
