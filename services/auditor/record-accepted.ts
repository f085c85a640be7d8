import { decodeAccepted } from '@triplock/contracts';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { RecordBatch, ReceivedRecord } from '@triplock/transport';
import type { AuditorMetrics } from './metrics.ts';

const recordAccepted = loadSql(import.meta.url, 'sql/record-accepted.sql');
const recordRefusedRecords = loadSql(import.meta.url, 'sql/record-refused-records.sql');

/**
 * Remembers what the accepted topic holds, batch by batch. It reads each record by the same rules
 * as the ledger worker and by itself, so a record that the worker lost is still known here.
 *
 * @throws when the database is away; the batch then comes again and nothing is counted twice.
 */
export function recordAcceptedBatch(database: Queryable, metrics: AuditorMetrics) {
  const record = async ({ records }: Pick<RecordBatch, 'records'>): Promise<void> => {
    const accepted: object[] = [];
    const refused: object[] = [];
    for (const record of records) {
      const decoded = decodeAccepted(record);
      metrics.records.count(decoded.outcome);
      switch (decoded.outcome) {
        case 'payment':
          accepted.push({ ...paymentRow(decoded.payment), ...placeOf(record) });
          break;
        case 'refund':
          accepted.push({ ...refundRow(decoded.refund), ...placeOf(record) });
          break;
        case 'refused': {
          const { reason } = decoded;
          const detail = storable(decoded.detail);
          refused.push({ topic: record.topic, ...placeOf(record), reason, detail });
          break;
        }
        default:
          decoded satisfies never;
      }
    }
    if (accepted.length > 0) await database.query(recordAccepted, [JSON.stringify(accepted)]);
    if (refused.length > 0) await database.query(recordRefusedRecords, [JSON.stringify(refused)]);
  };
  return (batch: Pick<RecordBatch, 'records'>): Promise<void> =>
    metrics.recordsSeconds.time(
      () => record(batch),
      () => 'recorded',
      'failed',
    );
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
