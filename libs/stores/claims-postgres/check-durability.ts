import { loadSql } from '@triplock/postgres';

export const readDurabilitySql = loadSql(import.meta.url, 'read-durability.sql');

/** A row of read-durability.sql. */
export type DurabilityRow = { fsync: string; synchronous_commit: string };

/** A claim that was acknowledged must not be lost by a crash, because that cannot be noticed. */
export class PostgresDurabilityError extends Error {
  override name = 'PostgresDurabilityError';
  constructor(setting: string) {
    super(
      `PostgreSQL has ${setting} = off for the role of the claims, so a crash may lose the latest ` +
        `claims unnoticed: set ${setting} to on`,
    );
  }
}

/** @throws PostgresDurabilityError when a crash may lose what was committed. */
export function checkDurability(row: DurabilityRow): void {
  if (row.fsync === 'off') throw new PostgresDurabilityError('fsync');
  if (row.synchronous_commit === 'off') throw new PostgresDurabilityError('synchronous_commit');
}
