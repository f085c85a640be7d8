import { decodeAccepted } from '@triplock/contracts';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import { inBatches } from '@triplock/runtime';
import type { RecordBatch, ReceivedRecord } from '@triplock/transport';
import type { AuditorMetrics } from './metrics.ts';

const recordAccepted = loadSql(import.meta.url, 'sql/record-accepted.sql');
const recordRefusedRecords = loadSql(import.meta.url, 'sql/record-refused-records.sql');

// Fewer and larger transactions cost less, and nobody waits for the audit's knowledge of a record.
const batchLimits = { apartMs: 50, itemsMax: 256 };

type Rows = { accepted: object[]; refused: object[] };

/**
 * Remembers what the accepted topic holds, the batches of several partitions together. It reads
 * each record by the same rules as the ledger worker and by itself, so a record that the worker
 * lost is still known here.
 *
 * @throws when the database is away; the batch then comes again and nothing is counted twice.
 */
export function recordAcceptedBatch(database: Queryable, metrics: AuditorMetrics) {
  const record = inBatches<Rows, void>(async (batches) => {
    const accepted = batches.flatMap((rows) => rows.accepted);
    const refused = batches.flatMap((rows) => rows.refused);
    if (accepted.length > 0) await database.query(recordAccepted, [JSON.stringify(accepted)]);
    if (refused.length > 0) await database.query(recordRefusedRecords, [JSON.stringify(refused)]);
    return batches.map(() => undefined);
  }, batchLimits);
  return (batch: Pick<RecordBatch, 'records'>): Promise<void> =>
    metrics.recordsSeconds.time(
      () => record(rowsOf(batch.records, metrics)),
      () => 'recorded',
      'failed',
    );
}

function rowsOf(records: readonly ReceivedRecord[], metrics: AuditorMetrics): Rows {
  const rows: Rows = { accepted: [], refused: [] };
  for (const record of records) {
    const decoded = decodeAccepted(record);
    metrics.records.count(decoded.outcome);
    switch (decoded.outcome) {
      case 'payment':
        rows.accepted.push({ ...paymentRow(decoded.payment), ...placeOf(record) });
        break;
      case 'refund':
        rows.accepted.push({ ...refundRow(decoded.refund), ...placeOf(record) });
        break;
      case 'refused': {
        const { reason } = decoded;
        const detail = storable(decoded.detail);
        rows.refused.push({ topic: record.topic, ...placeOf(record), reason, detail });
        break;
      }
      default:
        decoded satisfies never;
    }
  }
  return rows;
}

function paymentRow(payment: AcceptedPayment) {
  const { currency, amount } = payment.details.money;
  return { kind: 'payment', ...identityOf(payment), currency, amount: Number(amount) };
}

function refundRow(refund: AcceptedRefund) {
  const { amount } = refund.details;
  const asked = amount === undefined ? {} : { amount: Number(amount) };
  return { kind: 'refund', ...identityOf(refund), payment_id: refund.paymentId, ...asked };
}

function identityOf({ txnId, fingerprint, partnerId }: AcceptedPayment | AcceptedRefund) {
  return { txn_id: txnId, fingerprint, partner_id: partnerId };
}

function placeOf({ partition, offset }: ReceivedRecord) {
  return { kafka_partition: partition, kafka_offset: String(offset) };
}

/**
 * Without what PostgreSQL's text refuses: one such record would otherwise hold up its partition.
 */
function storable(detail: string): string {
  return detail.slice(0, 500).toWellFormed().replaceAll('\0', '\\0');
}
