import { openForCommand } from '@triplock/postgres';
import type { ClaimsInspector } from './claims-inspector.ts';

type ClaimRow = {
  state: string;
  partner: string;
  fingerprint: string;
  accepted_at: Date;
  left_ms: number;
  status: number | null;
  body: string | null;
};

/** Claims in PostgreSQL, as the owner of their tables. */
export function inspectPostgresClaims({
  url,
  namespace,
}: {
  url: string;
  namespace: string;
}): ClaimsInspector {
  const database = openForCommand({
    ...{ url, applicationName: 'claims from outside', connectionsMax: 2 },
  });
  const changed = async (statement: string, ...more: (string | number)[]) =>
    (await database.query(`${statement} RETURNING true`, [namespace, ...more])).length;
  return {
    async look(txnId) {
      const [row] = await database.query<ClaimRow>(
        `SELECT state, partner, fingerprint, accepted_at, status, body,
           extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS left_ms
         FROM claims.claims
         WHERE namespace = $1 AND txn_id = $2 AND expires_at > clock_timestamp()`,
        [namespace, txnId],
      );
      if (row === undefined) return undefined;
      const { state, partner, fingerprint, status, body } = row;
      return {
        ...{ state, partner, fingerprint, acceptedAt: row.accepted_at, leftMs: row.left_ms },
        answer: status === null ? undefined : { status, body: body ?? '' },
      };
    },
    async expire(txnId) {
      const expiry = `UPDATE claims.claims SET expires_at = clock_timestamp()
        WHERE namespace = $1 AND txn_id = $2 AND expires_at > clock_timestamp()`;
      return (await changed(expiry, txnId)) > 0;
    },
    async forget() {
      const claims = await changed('DELETE FROM claims.claims WHERE namespace = $1');
      const markers = await changed('DELETE FROM claims.warm_markers WHERE namespace = $1');
      return { command: 'DELETE of all claims in PostgreSQL', keys: claims + markers };
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
    /** Table, indexes and the room that pages keep free, by the rows that are there. */
    async bytesPerClaim() {
      const [row] = await database.query<{ bytes: number }>(
        `SELECT pg_total_relation_size('claims.claims')::float8 / count(*) AS bytes
         FROM claims.claims`,
      );
      return row!.bytes;
    },
    close: () => database.close(),
  };
}
