import { type BringUp, UsageError } from '@triplock/launcher';
import { loadSql } from '@triplock/postgres';
import type { Guards } from '../effects.ts';

/** A guard that can be taken away, and how. */
export type MissingGuard = {
  name: Exclude<keyof Guards, 'webhook'>;
  /** The scenario that shows best what then escapes. */
  scenario: string;
  /** What tells the services to go without it. */
  settings: NonNullable<BringUp['settings']>;
  /** What takes it out of the database. */
  sql: readonly string[];
};

/** Every guard, taken away where it lives: in the gateway, in the ledger, at the receiver. */
export const missingGuards: readonly MissingGuard[] = [
  {
    name: 'claims',
    scenario: 'retry',
    settings: { 'ingest-gateway': { CLAIMS: 'none' } },
    sql: [],
  },
  {
    name: 'ledger',
    scenario: 'kafka-replayed',
    settings: {},
    sql: [loadSql(import.meta.url, 'forget-payments.sql')],
  },
  {
    name: 'inbox',
    scenario: 'downstream-replayed',
    settings: {},
    sql: [loadSql(import.meta.url, 'forget-events.sql')],
  },
];

/** @throws UsageError that gives the names when there is no such guard. */
export function chooseGuard(name: string): MissingGuard {
  const found = missingGuards.find((guard) => guard.name === name);
  if (found !== undefined) return found;
  const names = missingGuards.map((guard) => guard.name).join(', ');
  throw new UsageError(`there is no guard '${name}' to go without; guards: ${names}`);
}
