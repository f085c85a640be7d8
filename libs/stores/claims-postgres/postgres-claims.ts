import { randomUUID } from 'node:crypto';
import {
  bucketLimits,
  claimTimes,
  partnerLimits,
  releaseLate,
  type BucketEpoch,
  type BucketMarker,
  type ClaimOwner,
  type ClaimRequest,
  type Claims,
  type ClaimsOptions,
  type ClaimWalk,
  type OwnerToken,
  type PartnerLimits,
  type PendingRead,
} from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import {
  bucketOf,
  type Fingerprint,
  type PartnerId,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import {
  checkDurability,
  loadStatements,
  PostgresDurabilityError,
  readDurabilitySql,
} from '@triplock/postgres';
import {
  claimInBatches,
  cold,
  completeInBatches,
  NotSentError,
  type MarkerRow,
  type TimedOutcome,
} from './claim-batches.ts';
import { connectPostgres } from './postgres-connection.ts';

const claimSteps = loadStatements(import.meta.url, 'claims.sql', [
  'complete',
  'release',
  'read',
  'walk',
  'renewShown',
  'reap',
]);
const markerSteps = loadStatements(import.meta.url, 'warm-markers.sql', [
  'noteLoss',
  'setBarrier',
  'markCold',
]);

/** Where claims live. */
export type PostgresClaimsOptions = ClaimsOptions &
  Partial<PartnerLimits> & {
    /** The database, as the role `triplock_claims`. */
    url: string;
    /** Shown in `pg_stat_activity`. */
    applicationName: string;
  };

/** Claims that do not leave by themselves. */
export type PostgresClaims = Claims & {
  /**
   * Takes out some that expired more than an hour ago, and what is shown no longer; returns how
   * many.
   */
  reap(limits: { rowsMax: number }): Promise<number>;
};

/** Claims that also show for how long a completed one is known. */
export type TimedClaims = Omit<PostgresClaims, 'claim'> & {
  claim(request: ClaimRequest): Promise<TimedOutcome>;
};

/**
 * Guard 1 on PostgreSQL 15 or newer: one row per claim, and one statement per method, which calls
 * that come together share, timed by the server's clock. The server may be away: claims then reject
 * until it is back.
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
  const { namespace, logger, leaseMs, lifeMs, shownMs, ...server } = { ...claimTimes, ...options };
  const limits = bucketLimits({ ...partnerLimits, ...options });
  const postgres = connectPostgres({ ...server, logger });
  const claim = claimInBatches(postgres, { namespace, leaseMs, lifeMs, shownMs, limits });
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
    const rows = await postgres.rows(claimSteps.release, [namespace, txnId, token]);
    return rows.length > 0 ? 'released' : 'lost';
  };
  const late = releaseLate({ release, leaseMs, logger });
  const releaseLater = (owner: ClaimOwner, error: unknown): never => {
    late.add(owner);
    throw error;
  };

  return {
    async claim(request) {
      const token = randomUUID() as OwnerToken;
      return claim({ request, token }).catch((error: unknown) => {
        // Nobody will work on the claim, and the server may still make it once it was sent.
        if (error instanceof NotSentError || wasRefused(error)) throw error;
        return releaseLater({ txnId: request.txnId, token }, error);
      });
    },
    complete: completeInBatches(postgres, { namespace, lifeMs, statement: claimSteps.complete }),
    release: (owner) => release(owner).catch((error: unknown) => releaseLater(owner, error)),
    async read(txnId) {
      const values = [namespace, txnId, bucketFor(txnId), lifeMs];
      return pendingRead(await postgres.row<ReadRow>(claimSteps.read, values));
    },
    async renewShown(claims) {
      const ids = claims.map(({ txnId }) => txnId);
      const whose = [claims.map(({ partnerId }) => partnerId), ids.map(bucketFor)];
      const lasting = [lifeMs, shownMs, limits.shown];
      await postgres.rows(claimSteps.renewShown, [namespace, ids, ...whose, ...lasting]);
    },
    ...stepsOfMarkers(postgres, namespace),
    async reap({ rowsMax }) {
      return (await postgres.row<{ reaped: number }>(claimSteps.reap, [rowsMax])).reaped;
    },
    ping: inspect,
    async close() {
      await late.close();
      await postgres.close();
    },
  };
}

/** What is done to a bucket's marker. */
function stepsOfMarkers(
  postgres: ReturnType<typeof connectPostgres>,
  namespace: string,
): Pick<Claims, 'noteLoss' | 'setBarrier' | 'markCold'> {
  return {
    async noteLoss(bucket) {
      const values = [namespace, bucket, randomUUID()];
      return bucketMarker(await postgres.row(markerSteps.noteLoss, values));
    },
    async setBarrier({ bucket, epoch, barrier, warm }) {
      await postgres.rows(markerSteps.setBarrier, [namespace, bucket, epoch, barrier, warm]);
    },
    async markCold(bucket) {
      await postgres.rows(markerSteps.markCold, [namespace, bucket]);
    },
  };
}

/**
 * Walks over the claims in the order of their ids. The role needs no right but to read them, and
 * gets none of their tokens: `triplock_auditor`.
 */
export function openPostgresWalk(options: PostgresClaimsOptions): ClaimWalk {
  const { namespace, ...server } = options;
  const postgres = connectPostgres({ ...server, connectionsMax: 1 });
  return {
    async walk({ after = null, limit }) {
      const rows = await postgres.rows<WalkRow>(claimSteps.walk, [namespace, after, limit]);
      const completed = rows.filter(({ is_completed }) => is_completed);
      const claims = completed.map((row) => ({
        txnId: row.txn_id,
        partnerId: row.partner,
        fingerprint: row.fingerprint,
        acceptedAt: row.accepted_at,
        recordKey: row.record_key,
      }));
      return rows.length < limit ? { claims } : { claims, next: rows.at(-1)!.txn_id };
    },
    close: () => postgres.close(),
  };
}

type WalkRow = {
  txn_id: TxnId;
  partner: PartnerId;
  fingerprint: Fingerprint;
  accepted_at: Date;
  record_key: TxnId;
  is_completed: boolean;
};

/** No connection could be made, so nothing was asked for. */
function wasRefused(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return (cause as { code?: unknown } | undefined)?.code === 'ECONNREFUSED';
}

/** A row of read.sql, as its contract names it. */
type ReadRow = MarkerRow & {
  outcome: PendingRead['outcome'];
  partner: PartnerId;
  kind: TransactionKind;
  accepted_at: Date;
  lease_left_ms: number | null;
  shown: string | null;
};

/** What the row of a read says. */
function pendingRead(row: ReadRow): PendingRead {
  const { outcome } = row;
  switch (outcome) {
    case 'pending': {
      const { partner: partnerId, kind, accepted_at: acceptedAt, shown } = row;
      const { lease_left_ms: leaseLeftMs } = row;
      return {
        outcome,
        partnerId,
        kind,
        acceptedAt,
        ...(leaseLeftMs !== null && { underWay: { leaseLeftMs } }),
        ...(shown !== null && { shown }),
      };
    }
    case 'unknown':
      return { outcome };
    case 'cold':
      return cold(row);
    default:
      return outcome satisfies never;
  }
}

/** What the row of note-loss.sql says. */
function bucketMarker({ epoch, barrier }: MarkerRow): BucketMarker {
  return { epoch: epoch as BucketEpoch, ...(barrier !== null && { barrier }) };
}
