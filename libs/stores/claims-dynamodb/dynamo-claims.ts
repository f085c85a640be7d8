import { randomUUID } from 'node:crypto';
import {
  bucketLimits,
  claimTimes,
  partnerLimits,
  releaseLate,
  type BucketEpoch,
  type BucketMarker,
  type ClaimOwner,
  type Claims,
  type ClaimsOptions,
  type ClaimWalk,
  type OwnerToken,
  type PartnerLimits,
  type PendingRead,
} from '@triplock/claims';
import type { Fingerprint, PartnerId, TransactionKind, TxnId } from '@triplock/payments';
import {
  claimItem,
  lifeFrom,
  lookUp,
  markerOf,
  readMarker,
  recordOf,
  shownOf,
  type Layout,
} from './claim-items.ts';
import { openTable } from './claims-table.ts';
import type {
  Condition,
  DynamoAddress,
  DynamoConnection,
  Item,
  Table,
  Written,
} from './dynamo-client.ts';
import type { Moment } from './service-clock.ts';

/** Where claims live. `namespace` begins every key, so that several systems can share a table. */
export type DynamoClaimsOptions = DynamoAddress &
  ClaimsOptions &
  Partial<Pick<PartnerLimits, 'claimsPerPartner'>>;

/**
 * Guard 1 on DynamoDB: one item per claim, one for what a read shows of it for some seconds, one
 * warm marker per bucket, and one per partner and bucket that counts. Reads are consistent and
 * every write carries a condition, so that the item decides and not what was read before.
 *
 * DynamoDB has no clock that a condition could ask. Its answers carry the time, though, to the
 * second, and from them each gateway knows an interval that holds it (service-clock.ts), whatever
 * its own clock says. A lease is written from the latest time it may be and is over when it is over
 * at the earliest, so no gateway ends another's lease early, and a takeover waits for about a
 * second more at most.
 *
 * What DynamoDB acknowledged it does not forget: buckets are cold where the table is new, was
 * emptied, or was restored under this name, which is seen within 5 s by the table's id. Claims of
 * one partner have to go through one region: global tables merge by the last writer and compare
 * nothing.
 *
 * @throws DynamoTableError when the table is there and DynamoDB may delete claims early.
 */
export async function openDynamoClaims(options: DynamoClaimsOptions): Promise<Claims> {
  const { namespace, logger, leaseMs, lifeMs, shownMs } = { ...claimTimes, ...options };
  const dynamo = await openTable(options);
  const { claims: claimsMax } = bucketLimits({ ...partnerLimits, ...options });
  const layout: Layout = { namespace, leaseMs, lifeMs, shownMs, claimsMax };
  const { complete, release } = ownersSteps(dynamo, layout);
  const late = releaseLate({ release, leaseMs, logger });

  return {
    async claim(request) {
      const owner = { txnId: request.txnId, token: randomUUID() as OwnerToken };
      let mayBeMade = false;
      const onWrite = () => void (mayBeMade = true);
      const attempt = { layout, request, token: owner.token, onWrite };
      try {
        return await dynamo.inTime((table) => claimItem(table, attempt));
      } catch (error) {
        if (mayBeMade) late.add(owner);
        throw error;
      }
    },
    complete,
    async release(owner) {
      try {
        return await release(owner);
      } catch (error) {
        late.add(owner);
        throw error;
      }
    },
    read: (txnId) =>
      dynamo.inTime(async (table): Promise<PendingRead> => {
        const [{ record, cold }, kept] = await Promise.all([
          lookUp(table, layout, txnId),
          table.get(shownOf(layout, txnId)),
        ]);
        const { earliest } = table.now();
        const lives = (item: Item | undefined) => Number(item?.['expires_at']) > earliest;
        if (record === undefined || !lives(record)) return cold ?? { outcome: 'unknown' };
        return {
          outcome: 'pending',
          partnerId: record['p'] as PartnerId,
          kind: record['k'] as TransactionKind,
          acceptedAt: new Date(Number(record['a'])),
          ...(record['s'] !== 'completed' && {
            underWay: { leaseLeftMs: Number(record['l']) - earliest },
          }),
          ...(lives(kept) && { shown: String(kept!['shown']) }),
        };
      }),
    async renewShown(claims) {
      for (let done = 0; done < claims.length; done += renewedAtOnce) {
        const some = claims.slice(done, done + renewedAtOnce);
        await Promise.all(some.map(({ txnId }) => renewShown(dynamo, layout, txnId)));
      }
    },
    ...markerSteps(dynamo, layout),
    ping: () => dynamo.inTime(async (table) => void (await table.get(markerOf(layout, 0)))),
    async close() {
      await late.close();
      dynamo.close();
    },
  };
}

// As many as a table of any size takes at once beside its requests.
const renewedAtOnce = 20;

async function renewShown(dynamo: DynamoConnection, layout: Layout, txnId: TxnId): Promise<void> {
  await dynamo.inTime(async (table) => {
    // A connection that has asked nothing yet does not know the time.
    await table.tableId();
    const { earliest, latest } = table.now();
    const { change, values } = lifeFrom(latest, { lifeMs: layout.shownMs });
    return table.update(shownOf(layout, txnId), {
      change: `SET ${change}`,
      condition: '#expires_at > :now',
      values: { ...values, ':now': earliest },
    });
  });
}

const walked = ['id', 'p', 'f', 'a', 'expires_at', 'r'];

/**
 * Walks over the items of the table, those of other systems too: each step reads and is billed for
 * `limit` items, whatever it gives of them.
 *
 * @throws DynamoTableError when the table is there and DynamoDB may delete claims early.
 */
export async function openDynamoWalk(options: DynamoClaimsOptions): Promise<ClaimWalk> {
  const dynamo = await openTable(options);
  const prefix = recordOf(options, '' as TxnId);
  const completed = {
    condition: 'begins_with(#id, :prefix) AND #s = :completed',
    values: { ':prefix': prefix, ':completed': 'completed' },
  };
  return {
    walk: (step) =>
      dynamo.inTime(async (table) => {
        const { items, next } = await table.scan({ ...step, ...completed, attributes: walked });
        const { earliest } = table.now();
        const living = items.filter((item) => Number(item['expires_at']) > earliest);
        const claims = living.map((item) => {
          const txnId = String(item['id']).slice(prefix.length) as TxnId;
          return {
            txnId,
            partnerId: item['p'] as PartnerId,
            fingerprint: item['f'] as Fingerprint,
            acceptedAt: new Date(Number(item['a'])),
            recordKey: (item['r'] ?? txnId) as TxnId,
          };
        });
        return next === undefined ? { claims } : { claims, next };
      }),
    close: async () => dynamo.close(),
  };
}

/** What is done to a bucket's marker. */
function markerSteps(
  dynamo: DynamoConnection,
  layout: Layout,
): Pick<Claims, 'noteLoss' | 'setBarrier' | 'markCold'> {
  return {
    noteLoss: (bucket) => dynamo.inTime((table) => noteLoss(table, markerOf(layout, bucket))),
    async setBarrier({ bucket, epoch, barrier, warm }) {
      // Why this order is safe is explained in set-barrier.lua of libs/claims.
      const change = 'SET #barrier = :barrier, #warm = :warm';
      const condition = '#epoch = :epoch AND attribute_not_exists(#barrier)';
      const values = { ':barrier': barrier, ':warm': warm, ':epoch': epoch };
      const marker = markerOf(layout, bucket);
      await dynamo.inTime((table) => table.update(marker, { change, condition, values }));
    },
    async markCold(bucket) {
      const change = 'SET #table_id = :none';
      const unless = { condition: 'attribute_exists(#id)', values: { ':none': 'marked cold' } };
      const marker = markerOf(layout, bucket);
      await dynamo.inTime((table) => table.update(marker, { change, ...unless }));
    },
  };
}

/** Begins a new epoch for a marker that is missing or names another table; who is late reads it. */
async function noteLoss(table: Table, id: string): Promise<BucketMarker> {
  const [tableId, marker] = await Promise.all([table.tableId(), table.get(id)]);
  if (marker !== undefined && marker['table_id'] === tableId) return readMarker(marker);
  const epoch = randomUUID() as BucketEpoch;
  const put = await table.put(
    { id, epoch, table_id: tableId, since: table.now().latest },
    {
      condition: 'attribute_not_exists(#id) OR #table_id <> :table_id',
      values: { ':table_id': tableId },
    },
  );
  return put.outcome === 'written' ? { epoch } : noteLoss(table, id);
}

type Step = Condition & { change: string };

/** What only the last owner may do, while the record lives. */
function ownersSteps(dynamo: DynamoConnection, layout: Layout) {
  const end = (owner: ClaimOwner, stepAt: (now: Moment) => Step): Promise<Written> =>
    dynamo.inTime(async (table) => {
      // A connection that has asked nothing yet does not know the time.
      await table.tableId();
      const now = table.now();
      const step = stepAt(now);
      const values = { ...step.values, ':token': owner.token, ':now': now.earliest };
      return table.update(recordOf(layout, owner.txnId), { ...step, values });
    });
  return {
    async complete(owner: ClaimOwner) {
      const { outcome } = await end(owner, ({ latest }) => {
        const life = lifeFrom(latest, layout);
        return {
          change: `SET #s = :to, ${life.change} REMOVE #l`,
          condition: '#o = :token AND #expires_at > :now',
          values: { ':to': 'completed', ...life.values },
        };
      });
      return outcome === 'written' ? 'completed' : 'lost';
    },
    async release(owner: ClaimOwner) {
      const { outcome } = await end(owner, () => ({
        change: 'SET #s = :to',
        condition: '#o = :token AND #expires_at > :now AND #s <> :completed',
        values: { ':to': 'released', ':completed': 'completed' },
      }));
      return outcome === 'written' ? 'released' : 'lost';
    },
  } as const;
}
