import { loadSql, type Queryable } from '@triplock/postgres';

const lackingEventsSql = loadSql(import.meta.url, 'lacking-events.sql');

/**
 * How many published events some consumer has not received, because the broker forgot them or the
 * consumers did; with `wait-again` they wait for a dispatcher from now on. Of an outbox in
 * PostgreSQL only.
 */
export async function lackingEvents(
  database: Queryable,
  then: 'only-counted' | 'wait-again',
): Promise<number> {
  const parameters = [then === 'wait-again'];
  const [row] = await database.query<{ events: number }>(lackingEventsSql, parameters);
  return row!.events;
}
