import { loadStatements, type Queryable } from '@triplock/postgres';
import { maskCardNumbers } from '@triplock/payments';

const sql = loadStatements(import.meta.url, 'console-acts.sql', [
  'beginAct',
  'finishAct',
  'findByForm',
  'listActs',
]);

/**
 * What is known of an act. `begun`: it is under way, or the console ended in the middle of it;
 * `nothing`: there was nothing to do; `refused`: it was found to make no sense; `unknown`: a part
 * broke while it was under way, and it may have been done or not.
 */
export type ActOutcome = 'begun' | 'done' | 'nothing' | 'refused' | 'unknown';

/** An act as it is recorded. */
export type RecordedAct = {
  id: bigint;
  act: string;
  target: string;
  by: string;
  role: string;
  why: string;
  begunAt: Date;
  outcome: ActOutcome;
  /** What came of it, in words. */
  detail: string;
  finishedAt: Date | null;
};

/** An act that begins. */
type Begun = { form: string; act: string; target: string; by: string; role: string; why: string };

/** Records that an act begins, unless its form began one before: the same, or another one. */
export async function beginAct(
  database: Queryable,
  { form, act, target, by, role, why }: Begun,
): Promise<{ outcome: 'begun' | 'asked-before' | 'other-act'; id: bigint }> {
  const values = [form, act, target, by, role, why];
  const [begun] = await database.query<{ id: bigint }>(sql.beginAct, values);
  if (begun !== undefined) return { outcome: 'begun', id: begun.id };
  const asked = [form, act, target, by];
  const [before] = await database.query<{ id: bigint; isSame: boolean }>(sql.findByForm, asked);
  return { outcome: before!.isSame ? 'asked-before' : 'other-act', id: before!.id };
}

/** Records how an act ended. */
export async function finishAct(
  database: Queryable,
  { id, outcome, detail }: Pick<RecordedAct, 'id' | 'outcome' | 'detail'>,
): Promise<void> {
  await database.query(sql.finishAct, [id, outcome, detail]);
}

/** Which acts to list: of one kind, target or person, those before an act; newest first. */
export type ActQuestion = {
  before?: bigint;
  act?: string;
  target?: string;
  by?: string;
  limit: number;
};

/** Acts by pages and the API, and acts on operators; what people wrote without card numbers. */
export async function listActs(
  database: Queryable,
  { before, act, target, by, limit }: ActQuestion,
): Promise<RecordedAct[]> {
  const asked = [before, target, by, act, limit];
  const rows = await database.query<RecordedAct>(sql.listActs, asked);
  return rows.map((row) => ({ ...row, why: maskCardNumbers(row.why) }));
}

/** The act of this number; `undefined` when there is none. */
export async function findAct(database: Queryable, id: bigint): Promise<RecordedAct | undefined> {
  const [act] = await listActs(database, { before: id + 1n, limit: 1 });
  return act?.id === id ? act : undefined;
}
