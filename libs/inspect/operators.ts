import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { beginAct, finishAct } from './console-acts.ts';

const sql = loadStatements(import.meta.url, 'operators.sql', [
  'addOperator',
  'rotateToken',
  'setRole',
  'revokeOperator',
  'listOperators',
]);

/** What an operator may do, each as well what those before it may. */
export const roles = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** What is to become of an operator. */
export type OperatorChange =
  { verb: 'add' | 'role'; name: string; role: Role } | { verb: 'rotate' | 'revoke'; name: string };

/** What was done to an operator; a token is shown once. */
export type OperatorChanged =
  { outcome: 'done'; token?: string } | { outcome: 'exists' | 'no-operator' };

/** An operator as they are listed. */
export type ListedOperator = {
  operator: string;
  role: Role;
  addedAt: Date;
  revokedAt: Date | null;
};

/**
 * Changes an operator and records it, in one transaction: one that is changed and not recorded, or
 * the other way round, there is not.
 */
export async function changeOperator(
  tx: Queryable,
  action: OperatorChange,
  { by, why }: { by: string; why: string },
): Promise<OperatorChanged> {
  const done = await changeRow(tx, action);
  if (done.outcome !== 'done') return done;
  const detail = 'role' in action ? action.role : '';
  const { verb, name: target } = action;
  const act = { form: randomUUID(), act: `operators.${verb}`, target, by, role: 'owner', why };
  const { id } = await beginAct(tx, act);
  await finishAct(tx, { id, outcome: 'done', detail });
  return done;
}

async function changeRow(tx: Queryable, action: OperatorChange): Promise<OperatorChanged> {
  const { verb, name } = action;
  switch (verb) {
    case 'add': {
      const { token, kept } = newToken();
      const rows = await tx.query(sql.addOperator, [name, action.role, kept]);
      return rows.length > 0 ? { outcome: 'done', token } : { outcome: 'exists' };
    }
    case 'rotate': {
      const { token, kept } = newToken();
      const rows = await tx.query(sql.rotateToken, [name, kept]);
      return rows.length > 0 ? { outcome: 'done', token } : { outcome: 'no-operator' };
    }
    case 'role':
      return doneTo(await tx.query(sql.setRole, [name, action.role]));
    case 'revoke':
      return doneTo(await tx.query(sql.revokeOperator, [name]));
    default:
      return verb satisfies never;
  }
}

function doneTo(rows: readonly object[]): OperatorChanged {
  return { outcome: rows.length > 0 ? 'done' : 'no-operator' };
}

/**
 * A new token of an operator, to be shown once, and what of it is kept: the hash of what the
 * console sends to the database, so that whoever reads it there can send nothing that fits.
 */
function newToken(): { token: string; kept: Buffer } {
  const token = `op_${randomBytes(32).toString('base64url')}`;
  return { token, kept: sha256(sha256(token)) };
}

/** Everyone, in the order of names. */
export function listOperators(database: Queryable): Promise<ListedOperator[]> {
  return database.query<ListedOperator>(sql.listOperators);
}

function sha256(text: string | Buffer): Buffer {
  return createHash('sha256').update(text).digest();
}
