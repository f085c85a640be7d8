import { decodeAccepted } from '@triplock/contracts';
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
  return async ({ records }: Pick<RecordBatch, 'records'>): Promise<void> => {
    const payments: object[] = [];
    const refused: object[] = [];
    for (const record of records) {
      const decoded = decodeAccepted(record);
      metrics.records.inc({ outcome: decoded.outcome });
      if (decoded.outcome === 'refused') {
        const { reason } = decoded;
        const detail = storable(decoded.detail);
        refused.push({ topic: record.topic, ...placeOf(record), reason, detail });
        continue;
      }
      // Counted above; nothing is reconciled with it yet.
      if (decoded.outcome === 'refund') continue;
      const { txnId, fingerprint, partnerId, details } = decoded.payment;
      payments.push({
        txn_id: txnId,
        fingerprint,
        partner_id: partnerId,
        currency: details.money.currency,
        amount: Number(details.money.amount),
        ...placeOf(record),
      });
    }
    if (payments.length > 0) await database.query(recordAccepted, [JSON.stringify(payments)]);
    if (refused.length > 0) await database.query(recordRefusedRecords, [JSON.stringify(refused)]);
  };
}

function placeOf({ partition, offset }: ReceivedRecord) {
  return { kafka_partition: partition, kafka_offset: String(offset) };
}

/** Without what PostgreSQL's text refuses: one such record would otherwise hold up its partition. */
function storable(detail: string): string {
  return detail.slice(0, 500).toWellFormed().replaceAll('\0', '\\0');
}
