import type { BatchSpanSpec, SpanSpec } from '@triplock/runtime';
import type { Message } from 'kafkajs';
import type { RecordBatch } from './log.ts';

/*
 * Spans of our own, and not by the instrumentation of kafkajs. That one makes the span of a message
 * where `sendBatch` is called, which is in the loop of the group commit and in no request, and puts
 * it over the header that the record came with; and of a batch that is consumed it makes spans that
 * end together and that nothing is done in. Names and attributes are those of the semantic
 * conventions (opentelemetry.io/docs/specs/semconv/messaging/kafka).
 */

const kafka = { 'messaging.system': 'kafka' };

/** One record from its caller's view: until the brokers have it. */
export function sendRecordSpan(topic: string): SpanSpec {
  const attributes = {
    ...kafka,
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'append',
    'messaging.destination.name': topic,
  };
  return { name: `send ${topic}`, kind: 'producer', attributes };
}

/** One request with all the records that go together. */
export function sendBatchSpan(topic: string, messages: readonly Message[]): BatchSpanSpec {
  const attributes = {
    ...kafka,
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send batch',
    'messaging.destination.name': topic,
    'messaging.batch.message_count': messages.length,
  };
  const name = `send batch ${topic}`;
  return { name, kind: 'client', attributes, of: () => traceparentsOf(messages) };
}

/** A batch of one partition, from its arrival to the commit of its offset. */
export function processBatchSpan(
  { topic, groupId }: { topic: string; groupId: string },
  { partition, records }: RecordBatch,
): BatchSpanSpec {
  const attributes = {
    ...kafka,
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process batch',
    'messaging.destination.name': topic,
    'messaging.destination.partition.id': String(partition),
    'messaging.consumer.group.name': groupId,
    'messaging.batch.message_count': records.length,
  };
  const name = `process batch ${topic}`;
  return { name, kind: 'consumer', attributes, of: () => traceparentsOf(records) };
}

type Carrier = { headers?: Readonly<Record<string, unknown>> };

function traceparentsOf(carriers: readonly Carrier[]): string[] {
  return carriers.flatMap(({ headers }) => {
    const header = headers?.['traceparent'];
    return typeof header === 'string' || Buffer.isBuffer(header) ? [header.toString()] : [];
  });
}
