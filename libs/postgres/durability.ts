import type { Queryable } from './pool.ts';

/** What decides in a session whether a commit that was acknowledged outlives a crash. */
export type DurabilityRow = {
  role: string;
  fsync: string;
  synchronous_commit: string;
  /** Standbys that stream and that a commit waits for none of. */
  asynchronous_standbys: number;
};

/**
 * The settings as they are in this session, so with what the server, the database, the role and the
 * URL set: always one row. Any role may run it.
 *
 * A standby is whatever streams and is neither a subscriber of logical replication nor a backup:
 * nobody fails over to those. `synchronous_commit` `local` waits for no standby, whatever
 * `synchronous_standby_names` has.
 */
export const readDurabilitySql = `
  SELECT current_user AS role, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    CASE WHEN current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') <> 'local' THEN 0
      ELSE (SELECT count(*) FROM pg_stat_replication
        WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal')
          AND pid NOT IN (SELECT active_pid FROM pg_replication_slots
            WHERE slot_type = 'logical' AND active_pid IS NOT NULL))
    END::integer AS asynchronous_standbys`;

/** What was acknowledged must not be lost by a crash, because that cannot be noticed. */
export class PostgresDurabilityError extends Error {
  override name = 'PostgresDurabilityError';
  constructor(setting: string, role: string) {
    super(
      `PostgreSQL has ${setting} = off for the role ${role}, so a crash may lose what it ` +
        `acknowledged last, unnoticed: set ${setting} to on`,
    );
  }
}

/** @throws PostgresDurabilityError when a crash of the server may lose what was committed. */
export function checkDurability(row: Omit<DurabilityRow, 'asynchronous_standbys'>): void {
  if (row.fsync === 'off') throw new PostgresDurabilityError('fsync', row.role);
  if (row.synchronous_commit === 'off') {
    throw new PostgresDurabilityError('synchronous_commit', row.role);
  }
}

/** What a failover may lose although no crash of the server does. */
export type Durability = { asynchronousStandbys: number };

/** @throws PostgresDurabilityError when a crash of the server may lose what was committed. */
export async function readDurability(session: Queryable): Promise<Durability> {
  const [row] = await session.query<DurabilityRow>(readDurabilitySql);
  checkDurability(row!);
  return { asynchronousStandbys: row!.asynchronous_standbys };
}
