import { decodeAccepted, type DeadLetterHeaders, type DecodedRecord } from '@triplock/contracts';
import { detailsText, otherDetails, otherFollowUpDetails } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { inBatches } from '@triplock/runtime';
import type { ReadFirst, RecordBatch, ReceivedRecord, SkippedOffsets } from '@triplock/transport';
import { keepInOrder, UnreadError, type LostRecords, type Stretch } from './lost-records.ts';
import {
  deadLetterReasons,
  type AcceptedRecordName,
  type AuditorMetrics,
  type DeadLetterReason,
} from './metrics.ts';

const sql = loadStatements(import.meta.url, 'kafka-records.sql', [
  'recordAccepted',
  'recordRefusedRecords',
  'recordDeadLetters',
]);

/** Fewer and larger transactions cost less, and nobody waits for what the audit knows. */
const usualApartMs = 250;
const itemsMax = 256;

/**
 * Records of one partition; without `from` it is not known what comes before them, without `next`
 * nothing follows them that is no record.
 */
type ReadBatch = Pick<RecordBatch, 'records'> & Partial<Pick<RecordBatch, 'from' | 'next'>>;

type Rows = { accepted: object[]; refused: object[]; stretch: Stretch };
type FirstNew = { partition: number; first: bigint };

/**
 * Remembers what the accepted topic holds, the batches of several partitions together, and how far
 * it was read: what Kafka lost before that is recorded in the same transaction. It reads each
 * record by the same rules as the ledger worker and by itself, so a record that the worker lost is
 * still known here. A database that was set back has the records that it no longer knows read
 * first, so that the audit names what the ledger lost with them.
 *
 * @throws when the database is away; the batch then comes again and nothing is counted twice.
 */
export function recordAcceptedBatch(
  lost: LostRecords,
  metrics: AuditorMetrics,
  { apartMs } = { apartMs: usualApartMs },
) {
  const record = inBatches<Rows, void>(
    async (batches) => {
      const stretches = batches.map((rows) => rows.stretch);
      await keepInOrder(lost, stretches, (tx) => keepRows(tx, batches));
      return batches.map(() => undefined);
    },
    { apartMs, itemsMax },
  );
  return async (batch: ReadBatch): Promise<ReadFirst | undefined> => {
    if (batch.records.length === 0) return undefined;
    const stretch = stretchOf(batch);
    try {
      await metrics.recordsSeconds.time(
        () => record({ ...rowsOf(batch.records, metrics), stretch }),
        () => 'recorded',
        'failed',
      );
    } catch (error) {
      if (!(error instanceof UnreadError) || error.partition !== stretch.partition) throw error;
      lost.logger.error({ err: error }, readAgain);
      return { readFrom: error.from };
    }
    return undefined;
  };
}

const readAgain =
  'offsets were passed and are not kept here, so they are read again. If the database was set back, `rewind` has the ledger read them too';

/**
 * Remembers that offsets without a record were read: else the topic would seem to have lost them
 * once it drops them. Where something before them is not kept here, it comes with the next record.
 *
 * @throws when the database is away.
 */
export function recordSkipped(lost: LostRecords) {
  return async ({ partition, from, next }: Omit<SkippedOffsets, 'end'>): Promise<void> => {
    const stretch = { partition, from, first: next, next };
    await keepInOrder(lost, [stretch], async () => new Map()).catch((error: unknown) => {
      if (!(error instanceof UnreadError)) throw error;
    });
  };
}

/** Keeps what is new, and gives its first offset in each partition that has any. */
async function keepRows(
  tx: Queryable,
  batches: readonly Rows[],
): Promise<ReadonlyMap<number, bigint>> {
  const firstNew = new Map<number, bigint>();
  const keep = async (statement: string, rows: readonly object[]) => {
    if (rows.length === 0) return;
    for (const { partition, first } of await tx.query<FirstNew>(statement, [
      JSON.stringify(rows),
    ])) {
      const before = firstNew.get(partition);
      if (before === undefined || first < before) firstNew.set(partition, first);
    }
  };
  await keep(
    sql.recordAccepted,
    batches.flatMap((rows) => rows.accepted),
  );
  await keep(
    sql.recordRefusedRecords,
    batches.flatMap((rows) => rows.refused),
  );
  return firstNew;
}

function stretchOf({ records, from, next }: ReadBatch): Stretch {
  const [{ partition, offset: first }, last] = [records[0]!, records.at(-1)!];
  return { partition, from, first, next: next ?? last.offset + 1n };
}

function rowsOf(records: readonly ReceivedRecord[], metrics: AuditorMetrics) {
  const rows: Omit<Rows, 'stretch'> = { accepted: [], refused: [] };
  for (const record of records) {
    const decoded = decodeAccepted(record);
    metrics.records.count(whatIs(decoded));
    switch (decoded.outcome) {
      case 'payment':
        rows.accepted.push({ ...paymentRow(decoded.payment), ...offsetOf(record) });
        break;
      case 'follow-up':
        rows.accepted.push({ ...followUpRow(decoded.followUp), ...offsetOf(record) });
        break;
      case 'refused': {
        const { reason } = decoded;
        const detail = storable(decoded.detail);
        rows.refused.push({ topic: record.topic, ...offsetOf(record), reason, detail });
        break;
      }
      default:
        decoded satisfies never;
    }
  }
  return rows;
}

/** What a record is counted as. */
function whatIs(decoded: DecodedRecord): AcceptedRecordName {
  switch (decoded.outcome) {
    case 'payment':
      return decoded.payment.kind;
    case 'follow-up':
      return decoded.followUp.kind;
    case 'refused':
      return 'refused';
  }
  return decoded satisfies never;
}

function paymentRow(payment: AcceptedPayment) {
  const { money, paymentMethod, reference } = payment.details;
  return {
    kind: payment.kind,
    ...commonOf(payment),
    currency: money.currency,
    amount: Number(money.amount),
    payment_method: paymentMethod,
    reference,
    details: detailsText(otherDetails(payment)),
  };
}

function followUpRow(followUp: AcceptedFollowUp) {
  const { amount } = followUp.details;
  return {
    kind: followUp.kind,
    ...commonOf(followUp),
    payment_id: followUp.paymentId,
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    details: detailsText(otherFollowUpDetails(followUp)),
  };
}

function commonOf(accepted: AcceptedPayment | AcceptedFollowUp) {
  return {
    txn_id: accepted.txnId,
    fingerprint: accepted.fingerprint,
    partner_id: accepted.partnerId,
    response_version: accepted.responseVersion,
    accepted_at: accepted.acceptedAt,
  };
}

function offsetOf({ partition, offset }: ReceivedRecord) {
  return { kafka_partition: partition, kafka_offset: String(offset) };
}

/**
 * Without what PostgreSQL's text refuses: one such record would otherwise hold up its partition.
 */
function storable(detail: string): string {
  return detail.slice(0, 500).toWellFormed().replaceAll('\0', '\\0');
}

/**
 * Remembers which records became dead letters. One that can be read is known by its id and
 * fingerprint, any other by its offset.
 *
 * @throws when the database is away; the batch then comes again and nothing is counted twice.
 */
export function recordDeadLetterBatch(database: Queryable, metrics: AuditorMetrics) {
  return async ({ records }: Pick<RecordBatch, 'records'>): Promise<void> => {
    const deadLetters = records.map(deadLetterOf);
    for (const { reason } of deadLetters) metrics.deadLetters.count(labelOf(reason));
    await database.query(sql.recordDeadLetters, [JSON.stringify(deadLetters)]);
  };
}

function deadLetterOf(record: ReceivedRecord) {
  const decoded = decodeAccepted(record);
  const source = sourceOf(record);
  switch (decoded.outcome) {
    case 'payment':
      return { ...source, ...identityOf(decoded.payment) };
    case 'follow-up':
      return { ...source, ...identityOf(decoded.followUp) };
    case 'refused':
      return { ...source, txn_id: null, fingerprint: null };
  }
  return decoded satisfies never;
}

function identityOf({ txnId, fingerprint }: AcceptedPayment | AcceptedFollowUp) {
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
  if (!isLabelled || !isLabel(topic) || !isLabel(reason)) {
    return {
      topic: record.topic,
      kafka_partition: record.partition,
      kafka_offset: String(record.offset),
      reason: 'unlabelled',
    };
  }
  return { topic, kafka_partition: Number(partition), kafka_offset: offset, reason };
}

/** Anybody who writes to the topic can make reasons up; a metric's labels are ours. */
function labelOf(reason: string): DeadLetterReason {
  return deadLetterReasons.find((each) => each === reason) ?? 'other';
}

/** Short and plain, so that it can be stored. */
function isLabel(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,249}$/.test(text);
}
