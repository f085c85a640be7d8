import type { DatabaseRole } from './migration-sets.ts';
import type { Queryable } from './pool.ts';

/** How many connections a role may have at once, over the whole server. */
export type ConnectionLimits = Readonly<Partial<Record<DatabaseRole, number>>>;

/** A database stays open to roles that have no business there. Says what to do. */
export class OpenDatabaseError extends Error {
  override name = 'OpenDatabaseError';
}

/** How many connections the pool of each role holds in one replica. */
const pools = {
  // --- pools, by npm run generate
  triplock_gateway: 8,
  triplock_ledger: 8,
  triplock_dispatcher: 8,
  triplock_notifier: 8,
  triplock_settlement: 8,
  triplock_auditor: 11,
  triplock_console: 8,
  // --- end of pools
  // Beside those that services declare: the gateway's, the auditor's and the operator's.
  triplock_claims: 8,
  triplock_copy: 2,
  triplock_partners: 1,
  triplock_operator: 4,
} as const satisfies Record<DatabaseRole, number>;

/** For the operators' commands, and for whoever looks. */
const connectionsOfPeople = 8;

/**
 * How many connections each role may have, where each service has so many replicas: those of two
 * generations, because an upgrade starts the next one before the last has ended, and some for
 * people.
 */
export function connectionLimits(replicas: number): Readonly<Record<DatabaseRole, number>> {
  const limits = Object.entries(pools).map(([role, connections]) => {
    return [role, 2 * replicas * connections + connectionsOfPeople];
  });
  return Object.fromEntries(limits) as Record<DatabaseRole, number>;
}

const openSql = `
  SELECT datname AS name, format('REVOKE ALL ON DATABASE %I FROM PUBLIC', datname) AS statement
  FROM pg_database
  WHERE datname = ANY ($1) AND EXISTS (
    SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) AS granted
    WHERE granted.grantee = 0
  )`;

const lackingSql = `
  SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), rolname) AS statement
  FROM pg_roles
  WHERE rolname LIKE 'triplock\\_%' AND rolcanlogin AND (rolname <> 'triplock_copy' OR $1)
    AND NOT has_database_privilege(rolname, current_database(), 'CONNECT')
  UNION ALL
  SELECT format('REVOKE CONNECT ON DATABASE %I FROM triplock_copy', current_database())
  FROM pg_roles
  WHERE rolname = 'triplock_copy' AND NOT $1
    AND has_database_privilege(rolname, current_database(), 'CONNECT')`;

const copyLogsInSql = `
  SELECT 'ALTER ROLE triplock_copy LOGIN' AS statement
  FROM pg_roles WHERE rolname = 'triplock_copy' AND NOT rolcanlogin`;

/**
 * Closes a database to everybody but the services' roles, and lets nobody but its owner make
 * temporary tables there. PostgreSQL allows both to every role of the server unless it is revoked
 * (manual, 5.8). Run again it changes nothing; it is run at every start, because a dump does not
 * keep the rights of a database, and a template does not pass them on.
 *
 * @param copied whether a ledger that is in another store is copied here. Only then may the role
 * that writes the copy log in, which is the server's, and connect, which is this database's.
 * @throws OpenDatabaseError when the caller is not the database's owner.
 */
export async function closeDatabase(
  owner: Queryable,
  { copied }: { copied: boolean },
): Promise<void> {
  const [{ name }] = (await owner.query('SELECT current_database() AS name')) as [{ name: string }];
  await closeToPublic(owner, [name]);
  const missing = copied ? await owner.query<Statement>(copyLogsInSql) : [];
  for (const { statement } of missing) await owner.query(statement);
  for (const { statement } of await owner.query<Statement>(lackingSql, [copied]))
    await owner.query(statement);
}

type Statement = { name: string; statement: string };

/**
 * Takes from every role what PostgreSQL gives to all: connecting, and temporary tables.
 *
 * @throws OpenDatabaseError when the caller owns one of the databases not.
 */
export async function closeToPublic(owner: Queryable, names: readonly string[]): Promise<void> {
  for (const { statement } of await owner.query<Statement>(openSql, [names])) {
    await owner.query(statement);
  }
  // Without the right to, PostgreSQL warns and revokes nothing.
  const [open] = await owner.query<Statement>(openSql, [names]);
  if (open === undefined) return;
  throw new OpenDatabaseError(
    `every role of the server may connect to the database ${open.name}, and only its owner can change that: run this as its owner`,
  );
}

/** The roles that may have as many connections as the server has. */
export async function unlimitedRoles(owner: Queryable): Promise<string[]> {
  const rows = await owner.query<{ rolname: string }>(
    'SELECT rolname FROM pg_roles WHERE rolname = ANY ($1) AND rolconnlimit < 0 ORDER BY 1',
    [Object.keys(pools)],
  );
  return rows.map(({ rolname }) => rolname);
}

/**
 * Lets each role have so many connections and no more: one that leaks them, or is in other hands,
 * leaves the others theirs. Roles are the server's, and so are their limits.
 */
export async function limitConnections(owner: Queryable, limits: ConnectionLimits): Promise<void> {
  for (const [role, limit] of Object.entries(limits)) {
    await owner.query(`ALTER ROLE ${role} CONNECTION LIMIT ${limit}`);
  }
}
