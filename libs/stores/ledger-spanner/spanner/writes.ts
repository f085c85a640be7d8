import { encodeValue, type Value } from './values.ts';

/** A row to write when the transaction commits. A column that is `undefined` is left as it is. */
export type Write =
  | {
      kind: 'insert' | 'update' | 'insertOrUpdate';
      table: string;
      row: Readonly<Record<string, Value>>;
    }
  | { kind: 'delete'; table: string; key: readonly Value[] }
  /** Every row of a table. */
  | { kind: 'deleteAll'; table: string };

/** Rows of one kind, table and set of columns that go together. */
type Mutation = { kind: Write['kind']; table: string; columns: string[]; rows: Value[][] };

/**
 * Writes as the API takes them, in their order; rows that follow one another and are alike are one.
 */
export function mutationsOf(writes: readonly Write[]): object[] {
  const mutations: Mutation[] = [];
  for (const write of writes) {
    const next = mutationOf(write);
    const last = mutations.at(-1);
    if (last !== undefined && areAlike(last, next)) last.rows.push(...next.rows);
    else mutations.push(next);
  }
  return mutations.map(encodeMutation);
}

function mutationOf(write: Write): Mutation {
  const { kind, table } = write;
  if (kind === 'deleteAll') return { kind, table, columns: [], rows: [] };
  if (kind === 'delete') return { kind, table, columns: [], rows: [[...write.key]] };
  const entries = Object.entries(write.row).filter(([, value]) => value !== undefined);
  const columns = entries.map(([column]) => column);
  return { kind, table, columns, rows: [entries.map(([, value]) => value)] };
}

function areAlike(one: Mutation, other: Mutation): boolean {
  const isSameTable = one.kind === other.kind && one.table === other.table;
  return isSameTable && one.columns.join() === other.columns.join();
}

function encodeMutation({ kind, table, columns, rows }: Mutation): object {
  if (kind === 'deleteAll') return { delete: { table, keySet: { all: true } } };
  const values = rows.map((row) => ({ values: row.map(encodeValue) }));
  if (kind === 'delete') return { delete: { table, keySet: { keys: values } } };
  return { [kind]: { table, columns, values } };
}
