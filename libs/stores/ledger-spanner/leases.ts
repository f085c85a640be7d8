import { bucketCount } from '@triplock/contracts';
import type { BucketLease, Holding, PublishedMark } from '@triplock/ledger';
import type { EventId } from '@triplock/payments';
import type { Columns } from './rows.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';
import { commitTimestamp, type Lookup, type Params, type Write } from './spanner/values.ts';

const clockSql = 'SELECT CURRENT_TIMESTAMP() AS now';
const leasesSql = 'SELECT bucket, owner, epoch, expires_at FROM outbox_leases';
const ownersSql = 'SELECT owner, alive_until FROM outbox_owners';
const dayMs = 86_400_000;

type Lease = { bucket: number; owner: string | null; epoch: bigint; expiresAt: number };

/**
 * Leases by `Outbox.leaseBuckets`'s contract. All leases are read under locks, so that one
 * owner leases after the other.
 *
 * The share is the buckets divided by the owners alive, rounded up, so that nothing is left over. A
 * surplus is given up at once: an owner that lacks buckets asks often, so none of them waits for
 * long.
 */
export function leaseBuckets(
  database: SpannerDatabase,
  request: { owner: string; leaseMs: number },
): Promise<Holding> {
  const { owner, leaseMs } = request;
  return database.transaction(async (tx) => {
    const now = await readClock(tx);
    const share = Math.ceil(bucketCount / (1 + (await announce(tx, request, now))));
    const leases = await readLeases(tx);
    const alive = leases.filter(
      ({ expiresAt, owner: holder }) => holder !== null && expiresAt > now,
    );
    const held = alive.filter((lease) => lease.owner === owner);
    const free = leases.filter((lease) => !alive.includes(lease));
    const taken = free.slice(0, Math.max(0, share - held.length));
    const holding = [
      ...held.slice(0, share),
      ...taken.map((lease) => ({ ...lease, epoch: lease.epoch + 1n })),
    ].sort((one, other) => one.bucket - other.bucket);
    const expires_at = new Date(now + leaseMs);
    tx.write(
      ...holding.map(({ bucket, epoch }) => leaseWrite({ bucket, epoch, owner, expires_at })),
      ...held.slice(share).map((lease) => givenUp(lease, now)),
    );
    return {
      leases: holding.map(({ bucket, epoch }) => ({ bucket, epoch })),
      moreToCome: holding.length < share && othersHaveMoreThan(share, { alive, owner }),
    };
  });
}

/** Gives an owner's leases back. The epochs stay: the next owner of a bucket raises its epoch. */
export function releaseBuckets(database: SpannerDatabase, owner: string): Promise<void> {
  return database.transaction(async (tx) => {
    const now = await readClock(tx);
    const held = (await readLeases(tx)).filter((lease) => lease.owner === owner);
    tx.write({ kind: 'delete', table: 'outbox_owners', key: [owner] });
    tx.write(...held.map((lease) => givenUp(lease, now)));
  });
}

async function readClock(tx: SpannerTransaction): Promise<number> {
  const [row] = await tx.query<{ now: Date }>(clockSql);
  return row!.now.getTime();
}

/** Says that the owner is alive, forgets those that are long gone, and counts the others alive. */
async function announce(
  tx: SpannerTransaction,
  { owner, leaseMs }: { owner: string; leaseMs: number },
  now: number,
): Promise<number> {
  const owners = await tx.query<{ owner: string; alive_until: Date }>(ownersSql);
  const others = owners.filter((each) => each.owner !== owner);
  const gone = others.filter(({ alive_until }) => +alive_until < now - dayMs);
  const row = { owner, alive_until: new Date(now + leaseMs) };
  tx.write(
    { kind: 'insertOrUpdate', table: 'outbox_owners', row },
    ...gone.map((each): Write => ({ kind: 'delete', table: 'outbox_owners', key: [each.owner] })),
  );
  return others.filter(({ alive_until }) => +alive_until > now).length;
}

/** Every bucket's lease in order; one that was never leased has no row. */
async function readLeases(tx: SpannerTransaction): Promise<Lease[]> {
  type Row = { bucket: bigint; owner: string | null; epoch: bigint; expires_at: Date };
  const rows = new Map((await tx.query<Row>(leasesSql)).map((row) => [Number(row.bucket), row]));
  return Array.from({ length: bucketCount }, (_, bucket) => {
    const row = rows.get(bucket);
    return {
      bucket,
      owner: row?.owner ?? null,
      epoch: row?.epoch ?? 0n,
      expiresAt: row?.expires_at.getTime() ?? 0,
    };
  });
}

function othersHaveMoreThan(
  share: number,
  { alive, owner }: { alive: readonly Lease[]; owner: string },
): boolean {
  const counts = new Map<string | null, number>();
  for (const lease of alive) counts.set(lease.owner, (counts.get(lease.owner) ?? 0) + 1);
  counts.delete(owner);
  return [...counts.values()].some((count) => count > share);
}

function givenUp({ bucket, epoch }: Lease, now: number): Write {
  return leaseWrite({ bucket, epoch, owner: null, expires_at: new Date(now) });
}

function leaseWrite(row: {
  bucket: number;
  epoch: bigint;
  owner: string | null;
  expires_at: Date;
}): Write {
  return { kind: 'insertOrUpdate', table: 'outbox_leases', row };
}

const heldSql = `
  SELECT bucket, epoch FROM outbox_leases
  WHERE bucket IN UNNEST(@buckets) AND expires_at > CURRENT_TIMESTAMP()`;

/**
 * The epochs under which buckets are leased now. Read in a transaction, a lease cannot pass on
 * before its commit.
 */
export async function heldLeases(
  reader: Pick<SpannerTransaction, 'query'>,
  leases: readonly BucketLease[],
): Promise<Map<number, bigint>> {
  const buckets = [...new Set(leases.map(({ bucket }) => bucket))];
  const rows = await reader.query<{ bucket: bigint; epoch: bigint }>(heldSql, { buckets });
  return new Map(rows.map(({ bucket, epoch }) => [Number(bucket), epoch]));
}

type EventRow = {
  event_id: EventId;
  bucket: bigint;
  state: string;
  published_epoch: bigint | null;
};

/**
 * Marks events of several buckets, where their leases hold, and gives back those that it marked.
 */
export function markPublished(
  database: SpannerDatabase,
  published: readonly PublishedMark[],
): Promise<EventId[]> {
  const ids = [...new Set(published.map(({ eventId }) => eventId))];
  return database.transaction(async (tx) => {
    const held = await heldLeases(tx, published);
    const rows = await tx.read<EventRow>({
      table: 'outbox',
      columns: ['event_id', 'bucket', 'state', 'published_epoch'],
      keys: ids.map((id) => [id]),
    });
    const events = new Map(rows.map((row) => [row.event_id, row]));
    const marked = new Set<EventId>();
    for (const { eventId, bucket, epoch } of published) {
      const event = events.get(eventId);
      if (held.get(bucket) !== epoch || event?.bucket !== BigInt(bucket)) continue;
      if (event.state === 'pending') {
        if (marked.has(eventId)) continue;
        const state = { state: 'published', published_epoch: epoch };
        updateEvent(tx, { event_id: eventId, ...state, published_at: commitTimestamp });
        marked.add(eventId);
        // After a commit without an answer: the mark of this lease, which marks once, is this one.
      } else if (tx.mayHaveCommitted && event.published_epoch === epoch) marked.add(eventId);
    }
    return [...marked];
  });
}

/** Changes an event that the same transaction has read. */
export function updateEvent(
  tx: SpannerTransaction,
  columns: Columns & { event_id: EventId },
): void {
  const row = { ...columns, changed_at: commitTimestamp };
  tx.write({ kind: 'update', table: 'outbox', row });
}

const behindSql = `
  SELECT later.event_id
  FROM outbox AS poison
  JOIN outbox@{FORCE_INDEX=one_event_per_position} AS later
    ON later.payment_id = poison.payment_id
    AND later.created_at >= poison.created_at AND later.state = 'pending'
  WHERE poison.event_id = @eventId AND poison.bucket = @bucket AND poison.state = 'pending'`;

/** Sets an event and its payment's later ones aside, where the lease holds; returns how many. */
export function parkEvent(
  database: SpannerDatabase,
  lease: BucketLease,
  { eventId, reason }: { eventId: EventId; reason: string },
): Promise<number> {
  const { bucket, epoch } = lease;
  return database.transaction(async (tx) => {
    if ((await heldLeases(tx, [lease])).get(bucket) !== epoch) return 0;
    const rows = await tx.query<{ event_id: EventId }>(behindSql, { eventId, bucket });
    for (const { event_id } of rows) {
      const parked_reason = event_id === eventId ? reason : `behind ${eventId}`;
      updateEvent(tx, { event_id, state: 'parked', parked_reason });
    }
    return rows.length;
  });
}

const parkedTogetherSql = `
  SELECT event.event_id
  FROM outbox AS parked
  JOIN outbox@{FORCE_INDEX=one_event_per_position} AS event USING (payment_id)
  WHERE parked.event_id = @eventId AND parked.state = 'parked' AND event.state = 'parked'`;

/** Has a parked event wait again with its payment's others, by `Outbox.redrive`'s contract. */
export function redriveEvent(database: SpannerDatabase, eventId: EventId): Promise<EventId[]> {
  return database.transaction(async (tx) => {
    const rows = await tx.query<{ event_id: EventId }>(parkedTogetherSql, { eventId });
    for (const { event_id } of rows) {
      updateEvent(tx, { event_id, state: 'pending', parked_reason: null });
    }
    return rows.map(({ event_id }) => event_id);
  });
}

const anyParked: Lookup = {
  table: 'outbox',
  index: 'outbox_parked',
  columns: ['event_id'],
  keys: 'all',
  limit: 1,
};

/** Whether anything may be held. */
export async function isAnyParked(database: SpannerDatabase): Promise<boolean> {
  return (await database.read(anyParked)).length > 0;
}

/** What is parked is little; each payment's first. */
const parkedSql = `
  SELECT parked_payment AS payment, UNIX_MICROS(MIN(created_at)) AS micros
  FROM outbox@{FORCE_INDEX=outbox_parked, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE parked_payment IS NOT NULL
  GROUP BY parked_payment`;

/** The payments are looked at first: most events are of none of them. */
const notHeldSql = `(
  payment_id NOT IN UNNEST(@payments) OR NOT EXISTS (
    SELECT 1 FROM UNNEST(@payments) AS payment WITH OFFSET AS nth_parked
    WHERE payment = payment_id AND @since[OFFSET(nth_parked)] < UNIX_MICROS(created_at)
  )
)`;

/** What a statement puts into its condition to pass by what stands behind a parked event. */
export async function passByHeld(database: SpannerDatabase) {
  const parked = await database.query<{ payment: string; micros: bigint }>(parkedSql);
  const parameters = {
    payments: parked.map(({ payment }) => payment),
    since: parked.map(({ micros }) => micros),
  };
  return { notHeld: parked.length === 0 ? 'TRUE' : notHeldSql, parameters };
}

const countHeldSql = `
  SELECT COUNT(*) AS held FROM (
    SELECT 1
    FROM UNNEST(@payments) AS payment WITH OFFSET AS nth_parked
    JOIN outbox@{FORCE_INDEX=one_event_per_position} AS event ON event.payment_id = payment
    WHERE event.state IN ('pending', 'parked') AND event.created_at < @createdBefore
      AND UNIX_MICROS(event.created_at) >= @since[OFFSET(nth_parked)]
    LIMIT @countedMax
  )`;

/** Counts what is parked, and what stands behind it in the order of its payment. */
export async function countHeld(
  database: SpannerDatabase,
  counting: Params & { payments: readonly string[] },
): Promise<number> {
  if (counting.payments.length === 0) return 0;
  const [row] = await database.query<{ held: bigint }>(countHeldSql, counting);
  return Number(row!.held);
}
