import { ledgerStoreNamed, neededForLedger } from '@triplock/ledgers';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { redriveRecord } from '@triplock/transport';
import type { EventId } from '@triplock/payments';
import { UsageError, CommandError } from '@triplock/command';
import {
  attributesOf,
  findRecord,
  findRefused,
  renderDeadLetterId,
  type DeadLetterId,
  type DeadLetterSources,
} from './dead-letter-sources.ts';
import {
  lastLetterActs,
  lockLetter,
  recordDismissal,
  recordRedrive,
  type Actor,
  type LetterAct,
  type PastAct,
  type SetAside,
} from './operator-acts.ts';
import { type Config, required } from './config.ts';

const statements = loadStatements(import.meta.url, 'dead-letter-acts.sql', [
  'wakeTransaction',
  'renewDelivery',
  'lockDeliveries',
  'renewDeliveries',
  'lockDelivery',
  'clock',
]);

/** Who asks for a redrive. `again`: also for what was redriven or dismissed before. */
export type RedriveRequest = Actor & { again: boolean };

/** What came of redriving one dead letter. Only `redriven` did anything. */
export type RedriveOutcome =
  | { outcome: 'redriven'; ids: string[] }
  | { outcome: 'redriven-before' | 'dismissed-before'; last: PastAct }
  | { outcome: 'not-found' | 'never-taken' };

/**
 * Gives a dead letter back to where it came from: a record to the accepted topic with its original
 * key, bytes and headers, an event to the dispatchers, a webhook to the senders, a transaction to
 * the workers' resolver, a message with its original bytes and attributes to the events topic, and
 * so to every consumer: those that have its event know it. The act is recorded in the same
 * transaction. `never-taken`: a message without the id of an event, which no consumer can take.
 *
 * Dying after Kafka's or Pub/Sub's ack and before the commit leaves a redrive that nobody recorded;
 * repeated, it makes a second copy, which the ledger or the inboxes know. So does dying after a
 * ledger in a database of its own gave an event back; it is not parked any more, and repeated
 * nothing is found.
 */
export function redrive(
  sources: DeadLetterSources,
  id: DeadLetterId,
  request: RedriveRequest,
): Promise<RedriveOutcome> {
  const subject = renderDeadLetterId(id);
  return sources.database
    .transaction(async (tx): Promise<RedriveOutcome> => {
      await lockLetter(tx, subject);
      const { since = null } = id.source === 'webhook' ? await lockWebhook(tx, id) : {};
      if ((await recordRedrive(tx, subject, { ...request, since })) === 'done-before') {
        const last = await lastActOn(tx, subject);
        const isDismissed = last.act === 'dismiss';
        return { outcome: isDismissed ? 'dismissed-before' : 'redriven-before', last };
      }
      const ids = await giveBack(sources, tx, id);
      if (ids.length === 0) throw new NothingDone('not-found');
      return { outcome: 'redriven', ids };
    })
    .catch((error: unknown) => {
      if (error instanceof NothingDone) return { outcome: error.outcome };
      throw error;
    });
}

/** Leaves the transaction so that an act on nothing is not recorded. */
class NothingDone extends Error {
  override name = 'NothingDone';
  readonly outcome: 'not-found' | 'never-taken';
  constructor(outcome: NothingDone['outcome']) {
    super(outcome);
    this.outcome = outcome;
  }
}

/** Since when a webhook is given up, which stays so until the transaction is over; else nothing. */
async function lockWebhook(
  tx: Queryable,
  { eventId, ordinal }: Extract<DeadLetterId, { source: 'webhook' }>,
): Promise<{ since?: string }> {
  const [row] = await tx.query<{ since: string }>(statements.lockDelivery, [eventId, ordinal]);
  return row ?? {};
}

async function lastActOn(tx: Queryable, subject: string): Promise<LetterAct> {
  return (await lastLetterActs(tx, [subject])).get(subject)!;
}

/** Gives the ids of what goes on again; none when there is no such dead letter. */
async function giveBack(
  sources: DeadLetterSources,
  tx: Queryable,
  id: DeadLetterId,
): Promise<string[]> {
  switch (id.source) {
    case 'kafka': {
      const record = await findRecord(sources, id);
      if (record === undefined) return [];
      await redriveRecord({ ...sources.kafka, topic: sources.topics.accepted }, record);
      return [record.key?.toString() ?? renderDeadLetterId(id)];
    }
    case 'outbox':
      return sources.redriveEvent(tx, id.eventId as EventId);
    case 'webhook':
      return eventIds(await tx.query(statements.renewDelivery, [id.eventId, id.ordinal]));
    case 'transaction':
      return eventIds(await tx.query(statements.wakeTransaction, [id.txnId]));
    case 'refused':
      return publishAgain(sources, tx, id);
    default:
      return id satisfies never;
  }
}

/** Without an ordering key: what comes early or twice the inboxes put in order. */
async function publishAgain(
  sources: DeadLetterSources,
  tx: Queryable,
  id: Extract<DeadLetterId, { source: 'refused' }>,
): Promise<string[]> {
  const row = await findRefused(tx, id);
  if (row === undefined) return [];
  const { event_id: eventId, ...attributes } = attributesOf(row);
  if (eventId === undefined) throw new NothingDone('never-taken');
  const message = { data: row.data, attributes: { ...attributes, event_id: eventId } };
  if ((await sources.publishAgain(message)) === 'unpublishable') {
    throw new NothingDone('never-taken');
  }
  return [eventId];
}

function eventIds(rows: readonly { event_id?: string }[]): string[] {
  return rows.map((row) => row.event_id!);
}

/** Webhooks of one partner, by when they were made: from `since` on and before `until`. */
export type WebhookWindow = { partner: string; since?: Date; until?: Date };

const webhooksAtOnce = 1_000;

/**
 * Gives every webhook of a partner's window back to the senders that was given up before this call,
 * and returns how many; what was dismissed since it was given up stays so. Each is recorded as if
 * it had been redriven by its id. One that is not given up is left as it is, so calling twice does
 * what calling once does.
 *
 * They go batch by batch, each with its record: a crash leaves the rest given up, for the next
 * call.
 */
export async function redriveWindow(
  { database }: Pick<DeadLetterSources, 'database'>,
  { partner, since, until }: WebhookWindow,
  { by, why }: Actor,
): Promise<number> {
  const [clock] = await database.query<{ now: string }>(statements.clock);
  const times = [since?.toISOString(), until?.toISOString(), clock!.now];
  const asked = [partner, ...times, webhooksAtOnce];
  let redriven = 0;
  for (;;) {
    const batch = await database.transaction(async (tx) => {
      const locked = await tx.query<LockedDelivery>(statements.lockDeliveries, asked);
      const ids = locked.map((each) => each.event_id);
      const ordinals = locked.map((each) => each.ordinal);
      const renewed = await tx.query(statements.renewDeliveries, [ids, ordinals, by, why]);
      return { locked: locked.length, renewed: renewed.length };
    });
    if (batch.locked === 0) return redriven;
    redriven += batch.renewed;
  }
}

type LockedDelivery = { event_id: string; ordinal: number };

/** A dead letter that nothing waits for, so that a person may decide that it stays where it is. */
export type DismissableId = Exclude<DeadLetterId, { source: 'outbox' | 'transaction' }>;

/**
 * @throws UsageError for a parked event, behind which its payment's later ones wait, and for a
 * pending transaction, which was accepted: both must go on.
 */
export function dismissableOf(id: DeadLetterId): DismissableId {
  if (id.source !== 'outbox' && id.source !== 'transaction') return id;
  throw new UsageError(
    `${renderDeadLetterId(id)} is not for dismissing: it is of an accepted payment, which waits until it goes on; redrive it`,
  );
}

/** What came of dismissing one dead letter. `redriven`: who had given it back, if anybody. */
export type DismissOutcome =
  | { outcome: 'dismissed'; redriven: PastAct | null }
  | { outcome: 'dismissed-before'; last: PastAct }
  | { outcome: 'not-found' };

/**
 * Records that a person has looked at a dead letter and that it stays where it is. It leaves the
 * list and what the audit says waits; nothing else changes, and a redrive that is asked for `again`
 * still gives it back. A webhook that is given up once more after that is listed anew.
 *
 * The record is all that it does, in one statement behind the letter's locks: there is no crash
 * between two things.
 */
export function dismiss(
  sources: DeadLetterSources,
  id: DismissableId,
  { by, why }: Actor,
): Promise<DismissOutcome> {
  const subject = renderDeadLetterId(id);
  return sources.database.transaction(async (tx): Promise<DismissOutcome> => {
    await lockLetter(tx, subject);
    const setAside = await findSetAside(sources, tx, id);
    if (setAside === undefined) return { outcome: 'not-found' };
    const before = (await lastLetterActs(tx, [subject])).get(subject);
    const recorded = await recordDismissal(tx, subject, { by, why, ...setAside });
    if (recorded === 'done-before') return { outcome: 'dismissed-before', last: before! };
    return { outcome: 'dismissed', redriven: before?.act === 'redrive' ? before : null };
  });
}

/** Nothing for what is not there. Records and messages are set aside once, and stay. */
async function findSetAside(
  sources: DeadLetterSources,
  tx: Queryable,
  id: DismissableId,
): Promise<SetAside | undefined> {
  switch (id.source) {
    case 'kafka':
      return (await findRecord(sources, id)) && { since: null };
    case 'refused':
      return (await findRefused(tx, id)) && { since: null };
    case 'webhook': {
      const { since } = await lockWebhook(tx, id);
      return since === undefined ? undefined : { since };
    }
    default:
      return id satisfies never;
  }
}

/** What came of a redrive, in words. */
export function describeRedrive(result: RedriveOutcome): string {
  switch (result.outcome) {
    case 'redriven':
      return 'redriven';
    case 'redriven-before':
      return `redriven before, ${describeLetterAct(result.last)}; --again does it once more`;
    case 'dismissed-before':
      return `dismissed before, ${describeLetterAct(result.last)}; --again redrives it all the same`;
    case 'not-found':
      return 'there is no such dead letter';
    case 'never-taken':
      return 'no consumer can take it, so it was not published: it names no event, or Pub/Sub refuses it; dismiss it';
    default:
      return result satisfies never;
  }
}

/** What came of a dismissal, in words. */
export function describeDismissal(result: DismissOutcome): string {
  switch (result.outcome) {
    case 'dismissed':
      if (result.redriven === null) return 'dismissed';
      return `dismissed; it had been redriven, ${describeLetterAct(result.redriven)}`;
    case 'dismissed-before':
      return `dismissed before, ${describeLetterAct(result.last)}; nothing was changed`;
    case 'not-found':
      return 'there is no such dead letter: it may have been redriven meanwhile';
    default:
      return result satisfies never;
  }
}

/** Who did something about a dead letter, when and why. */
export function describeLetterAct({ at, by, why }: PastAct): string {
  return `${at.toISOString()} by ${by}${why === null ? '' : `: ${why}`}`;
}

/**
 * Refuses what the ledger's store cannot give back: a transaction that is not in the database that
 * redriving changes.
 *
 * @throws CommandError that says so; UsageError where the settings do not say where the outbox is.
 */
export function refuseWhatCannotBeRedriven(config: Config, ids: readonly DeadLetterId[]): void {
  const { LEDGER_STORE: store } = config;
  if (ids.some(({ source }) => source === 'outbox')) required(config, ...neededForLedger(store));
  const { givePendingBack: why } = ledgerStoreNamed(store).cannot;
  if (why === undefined || ids.every(({ source }) => source !== 'transaction')) return;
  throw new CommandError(why);
}
