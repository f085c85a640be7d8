import { openForCommand } from '@triplock/postgres';
import type { ClaimsInspector } from '@triplock/claims';

type ClaimRow = {
  state: string;
  partner: string;
  fingerprint: string;
  accepted_at: Date;
  left_ms: number;
};

const forgetSql = `
  WITH forgotten AS (
    DELETE FROM claims.claims WHERE namespace = $1 RETURNING true
  ), shown AS (
    DELETE FROM claims.claims_shown WHERE namespace = $1
  ), markers AS (
    DELETE FROM claims.warm_markers WHERE namespace = $1 RETURNING true
  )
  SELECT (SELECT count(*) FROM forgotten)::int + (SELECT count(*) FROM markers)::int AS keys`;

/** Claims in PostgreSQL, as the owner of their tables. */
export function inspectPostgresClaims({
  url,
  namespace,
}: {
  url: string;
  namespace: string;
}): ClaimsInspector {
  const database = openForCommand({
    url,
    applicationName: 'claims from outside',
    connectionsMax: 2,
  });
  const changed = async (statement: string, ...more: (string | number)[]) =>
    (await database.query(`${statement} RETURNING true`, [namespace, ...more])).length;
  return {
    async look(txnId) {
      const [row] = await database.query<ClaimRow>(
        `SELECT state, partner, encode(fingerprint, 'hex') AS fingerprint, accepted_at,
           extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS left_ms
         FROM claims.claims
         WHERE namespace = $1 AND txn_id = $2 AND expires_at > clock_timestamp()`,
        [namespace, txnId],
      );
      if (row === undefined) return undefined;
      const { state, partner, fingerprint, accepted_at: acceptedAt, left_ms: leftMs } = row;
      return { state, partner, fingerprint, acceptedAt, leftMs };
    },
    async expire(txnId) {
      const expiry = `UPDATE claims.claims SET expires_at = clock_timestamp()
        WHERE namespace = $1 AND txn_id = $2 AND expires_at > clock_timestamp()`;
      return (await changed(expiry, txnId)) > 0;
    },
    /** In one statement: claims that go before their markers would be a loss that nobody sees. */
    async forget() {
      const [row] = await database.query<{ keys: number }>(forgetSql, [namespace]);
      return { command: 'DELETE of all claims in PostgreSQL', keys: row!.keys };
    },
    async count() {
      const [row] = await database.query<{ count: number }>(
        `SELECT ((SELECT count(*) FROM claims.claims WHERE namespace = $1)
          + (SELECT count(*) FROM claims.warm_markers WHERE namespace = $1))::int AS count`,
        [namespace],
      );
      return row!.count;
    },
    ageMarkers: (ms) =>
      changed(
        `UPDATE claims.warm_markers SET since = since - $2 * interval '1 ms' WHERE namespace = $1`,
        ms,
      ),
    /**
     * Table, indexes and the room that pages keep free, by the rows that are there, of all systems;
     * what is shown by the rows of this one.
     */
    async bytesPerClaim() {
      const [row] = await database.query<{ claim: number; shown: number }>(
        `SELECT pg_total_relation_size('claims.claims')::float8 / count(*) AS claim,
           (SELECT avg(pg_column_size(s.*))::float8 FROM claims.claims_shown AS s
            WHERE namespace = $1) AS shown
         FROM claims.claims`,
        [namespace],
      );
      return row!;
    },
    close: () => database.close(),
  };
}
