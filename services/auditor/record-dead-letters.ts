import { decodeAccepted, type DeadLetterHeaders } from '@triplock/contracts';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { RecordBatch, ReceivedRecord } from '@triplock/transport';
import { deadLetterReasons, type AuditorMetrics, type DeadLetterReason } from './metrics.ts';

const recordDeadLetters = loadSql(import.meta.url, 'sql/record-dead-letters.sql');

/**
 * Remembers which records became dead letters. One that can be read is known by its id and
 * fingerprint, any other by its place.
 *
 * @throws when the database is away; the batch then comes again and nothing is counted twice.
 */
export function recordDeadLetterBatch(database: Queryable, metrics: AuditorMetrics) {
  return async ({ records }: Pick<RecordBatch, 'records'>): Promise<void> => {
    const letters = records.map(letterOf);
    for (const { reason } of letters) metrics.deadLetters.count(wordOf(reason));
    await database.query(recordDeadLetters, [JSON.stringify(letters)]);
  };
}

function letterOf(record: ReceivedRecord) {
  const decoded = decodeAccepted(record);
  const place = sourceOf(record);
  switch (decoded.outcome) {
    case 'payment':
      return { ...place, ...identityOf(decoded.payment) };
    case 'refund':
      return { ...place, ...identityOf(decoded.refund) };
    case 'refused':
      return { ...place, txn_id: null, fingerprint: null };
  }
  return decoded satisfies never;
}

function identityOf({ txnId, fingerprint }: AcceptedPayment | AcceptedRefund) {
  return { txn_id: txnId, fingerprint };
}

/** The record that died; a dead letter that does not say which one stands for itself. */
function sourceOf(record: ReceivedRecord) {
  const header = (name: keyof DeadLetterHeaders) => {
    const value = record.headers[name];
    return Buffer.isBuffer(value) ? value.toString('utf8') : '';
  };
  const [partition, offset] = [header('dead-letter.partition'), header('dead-letter.offset')];
  const [topic, reason] = [header('dead-letter.topic'), header('dead-letter.reason')];
  const isLabelled = /^\d{1,9}$/.test(partition) && /^\d{1,18}$/.test(offset);
  if (!isLabelled || !isWord(topic) || !isWord(reason)) {
    return {
      topic: record.topic,
      kafka_partition: record.partition,
      kafka_offset: String(record.offset),
      reason: 'unlabelled',
    };
  }
  return { topic, kafka_partition: Number(partition), kafka_offset: offset, reason };
}

/** Anybody who writes to the topic can make words up; a metric's labels are ours. */
function wordOf(reason: string): DeadLetterReason {
  return deadLetterReasons.find((each) => each === reason) ?? 'other';
}

/** Short and plain, so that it can be stored. */
function isWord(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,249}$/.test(text);
}
