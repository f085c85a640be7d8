import { randomUUID } from 'node:crypto';
import { bucketCount, claimLifeMs } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { loadSql } from '@triplock/postgres';
import type { Logger } from '@triplock/runtime';
import {
  releaseLate,
  type ClaimOwner,
  type ClaimRequest,
  type Claims,
  type OwnerToken,
} from '@triplock/claims';
import { checkDurability, PostgresDurabilityError, readDurabilitySql } from './check-durability.ts';
import { connectPostgres } from './connect-postgres.ts';
import {
  bucketMarker,
  claimOutcome,
  pendingRead,
  type ClaimRow,
  type ReadRow,
  type TimedOutcome,
} from './row-to-outcome.ts';

const sql = (file: string) => loadSql(import.meta.url, file);
const claimSql = sql('claim.sql');
const completeSql = sql('complete.sql');
const releaseSql = sql('release.sql');
const readSql = sql('read.sql');
const noteLossSql = sql('note-loss.sql');
const setBarrierSql = sql('set-barrier.sql');
const markColdSql = sql('mark-cold.sql');
const reapSql = sql('reap.sql');

/** Where claims live and for how long; times in milliseconds. */
export type PostgresClaimsOptions = {
  /** The database, as the role `triplock_claims`. */
  url: string;
  /** Part of every key, so that several systems can share a database. */
  namespace: string;
  /** Shown in `pg_stat_activity`. */
  applicationName: string;
  logger: Logger;
  /** How long the one at work is left alone; 30 s by default: ten times a request's limit. */
  leaseMs?: number;
  /** How long a claim is remembered; 24 h by default, which is what partners are promised. */
  lifeMs?: number;
  /** How long the server may take to answer; 1.5 s by default: half of a request's limit. */
  answerTimeoutMs?: number;
};

/** Claims that do not leave by themselves. */
export type PostgresClaims = Claims & {
  /** Takes out some that expired more than an hour ago, and returns how many. */
  reap(limits: { rowsMax: number }): Promise<number>;
};

/** Claims that also show for how long an answer is kept. */
export type TimedClaims = Omit<PostgresClaims, 'claim'> & {
  claim(request: ClaimRequest): Promise<TimedOutcome>;
};

/**
 * Guard 1 on PostgreSQL 15 or newer: one row per claim, and one statement per method, timed by the
 * server's clock. The server may be away: claims then reject until it is back.
 *
 * An acknowledged claim is durable, so a crash or a restart forgets nothing and leaves the buckets
 * warm. They are cold when the store is new, when its tables were emptied, and after a failover or
 * a restore to a point in time, because either begins a new timeline and may have lost the latest
 * claims. What cannot be noticed is a data directory that was put back as a copy: empty the table
 * `warm_markers` afterwards.
 *
 * @throws PostgresDurabilityError when the server is there and a crash may lose claims.
 */
export async function openPostgresClaims(options: PostgresClaimsOptions): Promise<TimedClaims> {
  const { namespace, logger, leaseMs = 30_000, lifeMs = claimLifeMs } = options;
  const postgres = connectPostgres(options);
  const bucketFor = (txnId: TxnId) => bucketOf(txnId, bucketCount);

  const inspect = async () => checkDurability(await postgres.row(readDurabilitySql, []));
  try {
    await inspect();
  } catch (error) {
    if (error instanceof PostgresDurabilityError) {
      await postgres.close();
      throw error;
    }
    logger.warn({ err: error }, 'postgres does not answer at startup, will keep trying');
  }

  const release = async ({ txnId, token }: ClaimOwner) => {
    const rows = await postgres.rows(releaseSql, [namespace, txnId, token]);
    return rows.length > 0 ? 'released' : 'lost';
  };
  const late = releaseLate({ release, leaseMs, logger });
  const letGoLater = (owner: ClaimOwner, error: unknown): never => {
    late.add(owner);
    throw error;
  };

  return {
    async claim({ txnId, partnerId, fingerprint, acceptedAt, shown, ledgerCheckedIn }) {
      const token = randomUUID() as OwnerToken;
      const parameters = [
        ...[namespace, txnId, bucketFor(txnId), token, fingerprint],
        ...[partnerId, acceptedAt, shown, leaseMs, lifeMs, ledgerCheckedIn ?? null],
      ];
      const row = await postgres.row<ClaimRow>(claimSql, parameters).catch((error: unknown) => {
        // Nobody will work on the claim, and the server may still make it once it was sent.
        if (wasRefused(error)) throw error;
        return letGoLater({ txnId, token }, error);
      });
      return claimOutcome(row, token);
    },
    async complete({ txnId, token }, { status, location, body }) {
      const parameters = [namespace, txnId, token, status, location, body];
      const rows = await postgres.rows(completeSql, parameters);
      return rows.length > 0 ? 'completed' : 'lost';
    },
    release: (owner) => release(owner).catch((error: unknown) => letGoLater(owner, error)),
    async read(txnId) {
      const parameters = [namespace, txnId, bucketFor(txnId), lifeMs];
      return pendingRead(await postgres.row<ReadRow>(readSql, parameters));
    },
    async noteLoss(bucket) {
      return bucketMarker(await postgres.row(noteLossSql, [namespace, bucket, randomUUID()]));
    },
    async setBarrier({ bucket, epoch, barrier, warm }) {
      await postgres.rows(setBarrierSql, [namespace, bucket, epoch, barrier, warm]);
    },
    async markCold(bucket) {
      await postgres.rows(markColdSql, [namespace, bucket]);
    },
    async reap({ rowsMax }) {
      return (await postgres.row<{ reaped: number }>(reapSql, [rowsMax])).reaped;
    },
    ping: inspect,
    async close() {
      await late.close();
      await postgres.close();
    },
  };
}

/** No connection could be made, so nothing was asked for. */
function wasRefused(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return (cause as { code?: unknown } | undefined)?.code === 'ECONNREFUSED';
}
