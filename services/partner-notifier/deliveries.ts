import type { EventId, PartnerId, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { WebhookOutcome } from './send-webhook.ts';

const leaseDeliveries = loadSql(import.meta.url, 'sql/lease-deliveries.sql');
const recordAttempt = loadSql(import.meta.url, 'sql/record-attempt.sql');
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
  record(delivery: LeasedDelivery, record: AttemptRecord): Promise<RecordOutcome>;
  backlog(): Promise<{ waiting: number; oldestSeconds: number }>;
};

/** The delivery rows in PostgreSQL, where all clocks are the database's. */
export function openDeliveries(database: Database): Deliveries {
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
    async record({ eventId, attempt }, record) {
      const rows = await database.query<{ state: RecordOutcome }>(recordAttempt, [
        eventId,
        attempt,
        record.outcome,
        record.status,
        record.error,
        Math.round(record.tookMs),
        Math.round(record.nextInMs),
        record.giveUpAfterMs,
      ]);
      return rows[0]?.state ?? 'overtaken';
    },
    async backlog() {
      const [row] = await database.query<{ waiting: number; oldest_seconds: number }>(
        measureBacklog,
      );
      return { waiting: row!.waiting, oldestSeconds: row!.oldest_seconds };
    },
  };
}

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
