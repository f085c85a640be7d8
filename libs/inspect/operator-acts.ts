import { userInfo } from 'node:os';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import { isMissing, UsageError } from '@triplock/command';

const statements = loadStatements(import.meta.url, 'operator-acts.sql', [
  'lastLetterActs',
  'recordRedrive',
  'recordDismissal',
  'recordRepublish',
  'recordRewind',
  'recordGiveBack',
  'recordAcknowledgement',
]);

/** Who acts, and why; recorded beside what was done. */
export type Actor = { by: string; why: string | null };

/** Who did something, when and why. */
export type PastAct = Actor & { at: Date };

/** What was done about a dead letter: it was given back to where it came from, or dismissed. */
export type LetterAct = PastAct & { act: 'redrive' | 'dismiss' };

/**
 * Who does what is recorded: the name after `--by`, else the user of this machine.
 *
 * @throws UsageError for an empty name, and where the user has none, as in many containers.
 */
export function whoActs(by: string | undefined): string {
  const name = (by ?? userName() ?? '').trim();
  if (name !== '') return name;
  throw by === undefined ? isMissing('--by', 'who you are') : new UsageError('--by takes a name');
}

/** What was done last about each of these dead letters that anything was done about. */
export async function lastLetterActs(
  database: Queryable,
  ids: readonly string[],
): Promise<Map<string, LetterAct>> {
  const rows = await database.query<LetterAct & { id: string }>(statements.lastLetterActs, [ids]);
  return new Map(rows.map(({ id, ...act }) => [id, act]));
}

/** Of two acts at once on one dead letter the second waits here until the first is over. */
export async function lockLetter(tx: Queryable, id: string): Promise<void> {
  await tx.query('SELECT auditor.lock_subject($1)', [id]);
}

/** When a dead letter was set aside last, by the database; null for what is set aside once. */
export type SetAside = { since: string | null };

/**
 * Records a redrive, which must follow in the same transaction; it holds the letter's lock.
 *
 * @returns `done-before`, and nothing recorded, for a letter that was redriven or dismissed since
 * it was set aside, unless it may be redriven `again`.
 */
export async function recordRedrive(
  tx: Queryable,
  id: string,
  { by, why, again, since }: Actor & SetAside & { again: boolean },
): Promise<'recorded' | 'done-before'> {
  const recorded = await tx.query(statements.recordRedrive, [id, by, why, again, since]);
  return recorded.length > 0 ? 'recorded' : 'done-before';
}

/**
 * Records that a dead letter was dismissed, in a transaction that holds its lock.
 *
 * @returns `done-before`, and nothing recorded, when that was the last thing done about it since it
 * was set aside.
 */
export async function recordDismissal(
  tx: Queryable,
  id: string,
  { by, why, since }: Actor & SetAside,
): Promise<'recorded' | 'done-before'> {
  const recorded = await tx.query(statements.recordDismissal, [id, by, why, since]);
  return recorded.length > 0 ? 'recorded' : 'done-before';
}

/**
 * Records that events are published again from a time on. Gives the time before which published
 * events have left the outbox; null when none has.
 */
export async function recordRepublish(
  database: Queryable,
  since: Date,
  { by, why }: Actor,
): Promise<Date | null> {
  const values = [since.toISOString(), by, why];
  const rows = await database.query<{ leftBefore: Date | null }>(
    statements.recordRepublish,
    values,
  );
  return rows[0]!.leftBefore;
}

/** Records that what was accepted since a time is read again. */
export async function recordRewind(
  database: Queryable,
  since: Date,
  { by, why }: Actor,
): Promise<void> {
  await database.query(statements.recordRewind, [since.toISOString(), by, why]);
}

/** Records that what an intent has of a payment is given back: refunded, or cancelled. */
export async function recordGiveBack(
  database: Queryable,
  { txnId, intentId }: { txnId: string; intentId: string },
  { by, why }: Actor,
): Promise<void> {
  await database.query(statements.recordGiveBack, [`intent:${txnId}/${intentId}`, by, why]);
}

/** What came of acknowledging a loss. */
export type Acknowledgement = 'acknowledged' | 'acknowledged-before' | 'not-found';

/**
 * Offsets that Kafka lost, a transaction of which the record was lost, or a record of which the
 * dead letter was.
 */
export type Loss =
  { lost: string } | { txnId: string } | { topic: string; partition: number; offset: string };

/**
 * Records that somebody knows of records that Kafka lost, or of a transaction or a dead letter that
 * is missing where it was not read in time, so that the audit may pass again.
 */
export async function recordAcknowledgement(
  database: Database,
  loss: Loss,
  { by, why }: Actor,
): Promise<Acknowledgement> {
  const subjects = subjectsOf(loss);
  const txnId = 'txnId' in loss ? loss.txnId : null;
  const record =
    'topic' in loss ? [loss.topic, loss.partition, loss.offset] : ([null, null, null] as const);
  return database.transaction(async (tx) => {
    await tx.query('SELECT auditor.lock_subject($1)', [subjects[0]]);
    const values = [subjects, by, why, txnId, ...record];
    const [row] = await tx.query<{ outcome: Acknowledgement }>(
      statements.recordAcknowledgement,
      values,
    );
    return row?.outcome ?? 'not-found';
  });
}

/** What came of an acknowledgement, in words. */
export const acknowledgements: Readonly<Record<Acknowledgement, string>> = {
  acknowledged: 'acknowledged',
  'acknowledged-before': 'acknowledged before; nothing was changed',
  'not-found': 'nothing was lost as this, or not for certain yet',
};

/**
 * The audit names offsets by an id, with which and when behind that, a transaction by its, and a
 * record by where it was.
 *
 * @throws UsageError for anything else.
 */
export function lossOf(word: string): { id: string; loss: Loss } {
  const [, topic, partition, offset] =
    /^([A-Za-z0-9._-]{1,249})\/(\d{1,9})\/(\d{1,18})$/.exec(word) ?? [];
  if (topic !== undefined) {
    return { id: word, loss: { topic, partition: Number(partition), offset: offset! } };
  }
  const [, lost] = /^(\d{1,18})(\/.*)?$/.exec(word) ?? [];
  if (lost !== undefined) {
    const id = String(BigInt(lost));
    return { id, loss: { lost: id } };
  }
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word)) {
    return { id: word, loss: { txnId: word } };
  }
  throw new UsageError(`'${word}' is no id that the audit names as lost`);
}

function subjectsOf(loss: Loss): string[] {
  if ('lost' in loss) return [`lost:${loss.lost}`];
  if ('topic' in loss) return [`record:${loss.topic}/${loss.partition}/${loss.offset}`];
  return ['claim', 'accepted', 'ledger'].map((had) => `${had}:${loss.txnId}`);
}

function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // A user id without an entry in the list of users.
    return undefined;
  }
}
