import { isTracing, openSpan, untracedSpan, type OpenSpan } from '@triplock/runtime';
import type { ReceivedRecord } from '@triplock/transport';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';

/**
 * The span in which a record's transaction is taken to its end, and what it carries on from there.
 */
export type Followed<Posting> = { posting: Posting; span: OpenSpan };

/**
 * Opens the span of one record, in the trace that the record came with. What is stored with the
 * transaction and its event continues it, whoever goes on with them, and whenever.
 */
export function followRecord<Posting extends { traceparent: string }>(
  { topic, partition, offset }: ReceivedRecord,
  { txnId, partnerId }: AcceptedPayment | AcceptedRefund,
  posting: Posting,
): Followed<Posting> {
  if (!isTracing()) return { posting, span: untracedSpan };
  const span = openSpan({
    name: `process ${topic}`,
    kind: 'consumer',
    parent: posting.traceparent,
    attributes: {
      'messaging.system': 'kafka',
      'messaging.operation.type': 'process',
      'messaging.operation.name': 'process',
      'messaging.destination.name': topic,
      'messaging.destination.partition.id': String(partition),
      'messaging.kafka.offset': Number(offset),
      'triplock.txn_id': txnId,
      'triplock.partner_id': partnerId,
    },
  });
  return { posting: { ...posting, traceparent: span.carried(posting.traceparent) }, span };
}
