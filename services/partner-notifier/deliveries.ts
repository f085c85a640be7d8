import type { EventId, PartnerId, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { inBatches, inBatchSpan } from '@triplock/runtime';
import type { WebhookOutcome } from './send-webhook.ts';

const leaseDeliveries = loadSql(import.meta.url, 'sql/lease-deliveries.sql');
const recordAttempts = loadSql(import.meta.url, 'sql/record-attempts.sql');
const measureBacklog = loadSql(import.meta.url, 'sql/measure-backlog.sql');

/** A delivery that is this sender's until its lease ends. */
export type LeasedDelivery = {
  eventId: EventId;
  partnerId: PartnerId;
  txnId: TxnId;
  body: string;
  /** Counts from 1; the fence that keeps an overtaken sender from recording. */
  attempt: number;
  /** The trace that led to it; null for one from before deliveries kept it. */
  traceparent: string | null;
  /** Attempts that failed since it was made, or asked for again last. */
  failedBefore: number;
};

/** What a sender asks for: its name, its room, and what it has at work already. */
export type LeaseRequest = {
  owner: string;
  leaseMs: number;
  deliveriesMax: number;
  perPartnerMax: number;
  atWork: ReadonlyMap<PartnerId, number>;
};

/** What one attempt came to and when the next one is due, should there be one. */
export type AttemptRecord = {
  outcome: WebhookOutcome['outcome'];
  status: number | null;
  error: string | null;
  tookMs: number;
  nextInMs: number;
  giveUpAfterMs: number;
};

/** `overtaken`: the lease ended and another sender has the delivery; nothing was written. */
export type RecordOutcome = 'delivered' | 'pending' | 'failed' | 'overtaken';

/** The delivery rows, for senders. */
export type Deliveries = {
  lease(request: LeaseRequest): Promise<LeasedDelivery[]>;
  /** Resolves when it is durable. Attempts that end together are recorded together. */
  record(delivery: LeasedDelivery, record: AttemptRecord): Promise<RecordOutcome>;
  backlog(): Promise<{ waiting: number; oldestSeconds: number }>;
};

type MadeAttempt = { delivery: LeasedDelivery; record: AttemptRecord };

// Fewer and larger transactions cost less; a delivery keeps its room for this much longer.
const groupLimits = { apartMs: 20, itemsMax: 256 };

/** The delivery rows in PostgreSQL, where all clocks are the database's. */
export function openDeliveries(database: Database): Deliveries {
  const record = inBatches((made: readonly MadeAttempt[]) => {
    const of = () => made.flatMap(({ delivery }) => delivery.traceparent ?? []);
    return inBatchSpan({ name: 'record attempts', of }, () => recordMany(database, made));
  }, groupLimits);
  return {
    async lease(request) {
      const rows = await database.query<LeasedRow>(leaseDeliveries, [
        request.owner,
        request.leaseMs,
        request.deliveriesMax,
        request.perPartnerMax,
        [...request.atWork.keys()],
        [...request.atWork.values()],
      ]);
      return rows.map(fromRow);
    },
    record: (delivery, attempt) => record({ delivery, record: attempt }),
    async backlog() {
      const [row] = await database.query<{ waiting: number; oldest_seconds: number }>(
        measureBacklog,
      );
      return { waiting: row!.waiting, oldestSeconds: row!.oldest_seconds };
    },
  };
}

/** Two attempts at one delivery may be in a group: the older one was overtaken. */
async function recordMany(
  database: Database,
  made: readonly MadeAttempt[],
): Promise<RecordOutcome[]> {
  const records = made.map(({ record }) => record);
  const rows = await database.query<RecordedRow>(recordAttempts, [
    made.map(({ delivery }) => delivery.eventId),
    made.map(({ delivery }) => delivery.attempt),
    records.map(({ outcome }) => outcome),
    records.map(({ status }) => status),
    records.map(({ error }) => error),
    records.map(({ tookMs }) => Math.round(tookMs)),
    records.map(({ nextInMs }) => Math.round(nextInMs)),
    records.map(({ giveUpAfterMs }) => giveUpAfterMs),
  ]);
  const states = new Map(rows.map((row) => [`${row.event_id} ${row.attempt}`, row.state]));
  return made.map(
    ({ delivery: { eventId, attempt } }) => states.get(`${eventId} ${attempt}`) ?? 'overtaken',
  );
}

type RecordedRow = { event_id: EventId; attempt: number; state: RecordOutcome };

type LeasedRow = {
  event_id: EventId;
  partner_id: PartnerId;
  txn_id: TxnId;
  body: string;
  attempt: number;
  traceparent: string | null;
  failed_before: number;
};

function fromRow(row: LeasedRow): LeasedDelivery {
  const { event_id: eventId, partner_id: partnerId, txn_id: txnId, failed_before, ...rest } = row;
  return { eventId, partnerId, txnId, failedBefore: failed_before, ...rest };
}
