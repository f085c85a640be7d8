import type { PaymentEvent } from '@triplock/contracts';
import type { Effect } from '@triplock/inbox';
import type { EndpointId, EventId, EventType, PartnerId, TxnId } from '@triplock/payments';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import { inBatches, inBatchSpan } from '@triplock/runtime';
import type { AttemptOutcome } from './webhook-client.ts';
const sql = loadStatements(import.meta.url, 'deliveries.sql', [
  'leaseDeliveries',
  'readBodies',
  'recordAttempts',
  'releaseDeliveries',
  'measureBacklog',
  'countSpentRates',
  'forgetRates',
  'forgetPaces',
  'reapDeliveries',
  'reapSettings',
]);

/** Who sends what was just made. */
export type WhoSends = {
  /** Its free slots: until they are taken or given back nothing else is leased for them. */
  reserve(): Reservation;
};

/** Slots of a sender; whoever has them calls one of the two, once. */
export type Reservation = {
  request: LeaseRequest;
  /** Reads what was leased and sends it, once that is committed: until then nobody heard of it. */
  take(lease: ReadLease): void;
  /** Nothing was leased, or nobody knows. */
  giveBack(): void;
};

/**
 * The effect of the notifier: each event becomes a delivery row for each endpoint that wants it, in
 * the transaction that remembers the event. What there is room for is leased by the same statement
 * and sent from memory after the commit; the rest is due for any sender, so a dead endpoint holds
 * up no event.
 *
 * A crash before the commit leaves nothing and has sent nothing, and Pub/Sub redelivers. After the
 * commit, inbox row and deliveries are durable: the redelivered event is a duplicate, and what was
 * leased is due again when the lease ends, for any sender. So it is when the commit is not
 * answered: nothing is sent before it is known. Where an endpoint is not open, or the partner has
 * none, the delivery is parked until there is one.
 */
export function notifyPartners(
  deliveries: Pick<Deliveries, 'make'>,
  sender: WhoSends,
): Effect<PaymentEvent> {
  return async (tx, events) => {
    const made = events.map(({ payload, traceparent = null }) => ({
      eventId: payload.event_id,
      partnerId: payload.partner_id,
      txnId: payload.txn_id,
      type: payload.type,
      body: webhookBody(payload),
      traceparent,
    }));
    const reserved = sender.reserve();
    try {
      const lease = await deliveries.make(tx, made, reserved.request);
      return (ended) => (ended === 'committed' ? reserved.take(lease) : reserved.giveBack());
    } catch (error) {
      reserved.giveBack();
      throw error;
    }
  };
}

/**
 * The body of an event's webhook: `{ type, timestamp, sequence?, data }`, unchanged from the event.
 * It is made once and stored, so every attempt sends the same bytes.
 */
function webhookBody({ type, timestamp, sequence, data }: PaymentEvent): string {
  return JSON.stringify({ type, timestamp, sequence, data });
}

/** An event that a partner is to be notified of. */
export type Notice = {
  eventId: EventId;
  partnerId: PartnerId;
  txnId: TxnId;
  type: EventType;
  body: string;
  /** The trace that led to it; null for one that came without. */
  traceparent: string | null;
};

/** A delivery that is this sender's until its lease ends. */
export type LeasedDelivery = Omit<Notice, 'type'> & {
  /** Which of the event's deliveries it is, from 1, and to which endpoint. */
  ordinal: number;
  endpointId: EndpointId;
  /** Counts from 1; the fence that keeps an overtaken sender from recording. */
  attempt: number;
  /** Attempts that failed since it was made, or asked for again last. */
  failedBefore: number;
  /** Whose rate it is in, and where it may go; null: its endpoint is not open. */
  host: string | null;
};

/** A sender's name and its free slots. */
export type LeaseRequest = { owner: string; leaseMs: number; deliveriesMax: number };

/** What was leased, and the partners of which something is due that there was no room for. */
export type Lease = { leased: LeasedDelivery[]; leftOf: readonly PartnerId[] };

/** Reads what leased deliveries say. After the commit alone. */
export type ReadLease = () => Promise<Lease>;

/**
 * How much of what is sent may be one partner's and to one host, whichever senders send it: in
 * flight, and begun in a second, as many at once after a rest.
 */
export type SendRates = Record<'partner' | 'host', { inFlight: number; aSecond: number }>;

/** What one attempt came to and when the next one is due, should there be one. */
export type AttemptRecord = {
  outcome: AttemptOutcome['outcome'];
  status: number | null;
  error: string | null;
  tookMs: number;
  nextInMs: number;
  giveUpAfterMs: number;
  /** How long its server asks not to be called: neither this delivery nor another one is sent. */
  retryAfterMs?: number;
};

/**
 * `parked`: it waits for its endpoint; `disabled`: so it does, and it was this attempt that had its
 * endpoint disabled, at which nothing was taken for too long; `canceled`: that was deleted.
 * `overtaken`: nothing was written: another sender has it, or a call whose answer was lost has
 * recorded this very attempt.
 */
export type RecordOutcome =
  'delivered' | 'pending' | 'parked' | 'disabled' | 'failed' | 'canceled' | 'overtaken';

/**
 * How much is still to be sent, and how much waits for an endpoint; the age of the oldest each. Of
 * one endpoint at most 1 000 are counted, of all together 10 000: there may be more.
 */
export type Backlog = {
  waiting: number;
  oldestSeconds: number;
  parked: number;
  oldestParkedSeconds: number;
};

type Spent = { partners: number; hosts: number; endpoints: number };

/** For how long webhooks are kept, from when they were delivered, and given up or parked. */
export type Retention = { deliveredMs: number; undeliveredMs: number };

/** The delivery rows, for senders. */
export type Deliveries = {
  /**
   * Never more than the rates allow. Whoever hears nothing of what was leased, or fails to read
   * what it says, sends none of it: it is due again when the lease ends.
   */
  lease(request: LeaseRequest): Promise<Lease>;
  /**
   * Makes deliveries in a transaction, and leases what is due as `lease` does, these behind those
   * of their endpoint that wait. The transaction is to end soon: no other sender leases until then.
   */
  make(tx: Queryable, made: readonly Notice[], request: LeaseRequest): Promise<ReadLease>;
  /** Resolves when it is durable. Attempts that end together are recorded together. */
  record(delivery: LeasedDelivery, record: AttemptRecord): Promise<RecordOutcome>;
  /**
   * Makes up to `rowsMax` parked deliveries due whose endpoint is open by now, cancels what deleted
   * ones did not get, and returns how many in all. A crash leaves the rest to the next call.
   */
  release(rowsMax: number): Promise<number>;
  backlog(): Promise<Backlog>;
  /** How many partners and hosts have spent their rate, and endpoints that are slowed theirs. */
  spentRates(): Promise<Spent>;
  /**
   * Removes up to `rowsMax` webhooks that have been kept for long enough, a day at least, and
   * returns how many. One that a sender is still to send stays. Rates of whoever rests go too, and
   * paces of endpoints that have turned nothing away for a while.
   */
  reap(retention: Retention, rowsMax: number): Promise<number>;
  /**
   * Removes what partners' settings left behind long ago, up to `rowsMax` rows of a kind, and
   * returns how many: what partners did, endpoints that were deleted and what they wanted.
   */
  reapSettings(rowsMax: number): Promise<number>;
};

// A backlog beyond them shows by its age.
const counted = { perEndpointMax: 1_000, max: 10_000 };

// In the order of the index and no further than the limit: the planner would rather sort the whole
// table once for each partner.
const readInOrderSql = `
  SELECT set_config(name, 'off', true)
  FROM unnest('{enable_bitmapscan,enable_seqscan,enable_sort}'::text[]) AS name`;

// Fewer and larger transactions cost less; a delivery keeps its slot for this much longer.
const recordBatch = { apartMs: 30, itemsMax: 256 };

const madeColumns = ['eventId', 'partnerId', 'txnId', 'type', 'body', 'traceparent'] as const;

const fiveDaysMs = 5 * 24 * 3_600_000;

/**
 * The delivery rows in PostgreSQL, where all clocks are the database's. An endpoint at which
 * nothing is taken for `disableAfterMs`, five days unless another time is given, is disabled by
 * what has been tried there for long.
 */
export function openDeliveries(
  database: Database,
  { partner: perPartner, host: perHost }: SendRates,
  { disableAfterMs = fiveDaysMs }: { disableAfterMs?: number } = {},
): Deliveries {
  const record = inBatches((made: readonly MadeAttempt[]) => {
    const of = () => made.flatMap(({ delivery }) => delivery.traceparent ?? []);
    const record = () => recordMany(database, made, disableAfterMs);
    return inBatchSpan({ name: 'record attempts', of }, record);
  }, recordBatch);
  const rates = [perPartner.inFlight, perHost.inFlight, perPartner.aSecond, perHost.aSecond];
  const make: Deliveries['make'] = async (tx, made, { owner, leaseMs, deliveriesMax }) => {
    const rows = await tx.query<LeasedRow>(sql.leaseDeliveries, [
      ...[owner, leaseMs, deliveriesMax],
      ...rates,
      ...madeColumns.map((name) => made.map((each) => each[name])),
    ]);
    return () => readLease(database, rows, made);
  };
  return {
    make,
    lease: async (request) => (await make(database, [], request))(),
    record: (delivery, attempt) => record({ delivery, record: attempt }),
    async release(rowsMax) {
      return (await database.query(sql.releaseDeliveries, [rowsMax])).length;
    },
    async backlog() {
      const limits = [counted.perEndpointMax, counted.max];
      return database.transaction(async (tx) => {
        await tx.query(readInOrderSql);
        return (await tx.query<Backlog>(sql.measureBacklog, limits))[0]!;
      });
    },
    async spentRates() {
      const limits = [perPartner.aSecond, perHost.aSecond];
      return (await database.query<Spent>(sql.countSpentRates, limits))[0]!;
    },
    async reapSettings(rowsMax) {
      const [row] = await database.query<{ reaped: number }>(sql.reapSettings, [rowsMax]);
      return row!.reaped;
    },
    async reap({ deliveredMs, undeliveredMs }, rowsMax) {
      await database.query(sql.forgetRates);
      await database.query(sql.forgetPaces);
      const limits = [deliveredMs, undeliveredMs, rowsMax];
      return (await database.query<{ reaped: number }>(sql.reapDeliveries, limits))[0]!.reaped;
    },
  };
}

type Said = { event_id: EventId; body: string };
type MadeAttempt = { delivery: LeasedDelivery; record: AttemptRecord };
type RecordedRow = { event_id: EventId; ordinal: number; attempt: number; state: RecordOutcome };

/** Two attempts at one delivery may be in a group: the older one was overtaken. */
async function recordMany(
  database: Database,
  made: readonly MadeAttempt[],
  disableAfterMs: number,
): Promise<RecordOutcome[]> {
  const records = made.map(({ record }) => record);
  const rows = await database.query<RecordedRow>(sql.recordAttempts, [
    made.map(({ delivery }) => delivery.eventId),
    made.map(({ delivery }) => delivery.attempt),
    records.map(({ outcome }) => outcome),
    records.map(({ status }) => status),
    records.map(({ error }) => error),
    records.map(({ tookMs }) => Math.round(tookMs)),
    records.map(({ nextInMs }) => Math.round(nextInMs)),
    records.map(({ giveUpAfterMs }) => giveUpAfterMs),
    made.map(({ delivery }) => delivery.ordinal),
    disableAfterMs,
    records.map(({ retryAfterMs }) => retryAfterMs ?? null),
  ]);
  const states = new Map(
    rows.map((row) => [`${row.event_id} ${row.ordinal} ${row.attempt}`, row.state]),
  );
  return made.map(({ delivery: { eventId, ordinal, attempt } }) => {
    return states.get(`${eventId} ${ordinal} ${attempt}`) ?? 'overtaken';
  });
}

type LeasedRow = {
  /** Null in the row of a lease that has nothing. */
  event_id: EventId | null;
  ordinal: number;
  partner_id: PartnerId;
  endpoint_id: EndpointId;
  txn_id: TxnId;
  attempt: number;
  traceparent: string | null;
  failed_before: number;
  host: string | null;
  left_of: PartnerId[];
};

/** What was just made is in memory. */
async function readLease(
  database: Database,
  rows: readonly LeasedRow[],
  made: readonly Notice[],
): Promise<Lease> {
  const bodies = new Map(made.map(({ eventId, body }) => [eventId, body]));
  const ids = new Set(rows.flatMap(({ event_id }) => event_id ?? []));
  const waited = [...ids].filter((id) => !bodies.has(id));
  if (waited.length > 0) {
    const said = await database.query<Said>(sql.readBodies, [waited]);
    for (const { event_id, body } of said) bodies.set(event_id, body);
  }
  const leased = rows.flatMap(({ event_id: eventId, ...row }) => {
    if (eventId === null) return [];
    const { ordinal, attempt, failed_before: failedBefore, traceparent, host } = row;
    const { partner_id: partnerId, endpoint_id: endpointId, txn_id: txnId } = row;
    const ids = { eventId, ordinal, partnerId, endpointId, txnId };
    return [{ ...ids, body: bodies.get(eventId)!, traceparent, attempt, failedBefore, host }];
  });
  return { leased, leftOf: rows[0]!.left_of };
}
