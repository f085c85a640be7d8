import type { PaymentSpanSpec, SpanSpec } from '@triplock/runtime';
import type { IncomingMessage, OutgoingMessage } from './topic.ts';

/*
 * Spans of our own: those of Google's package are made by its high-level client, and here its API
 * is called (ADR 6). A message carries its context as `traceparent`, an attribute that consumers of
 * any language can read. Names and attributes are those of the semantic conventions
 * (opentelemetry.io/docs/specs/semconv/messaging/gcp-pubsub).
 */

const pubsub = { 'messaging.system': 'gcp_pubsub' };

/** One PublishRequest, as a part of what the caller does for all its messages. */
export function publishSpan(topic: string, messages: readonly OutgoingMessage[]): SpanSpec {
  const attributes = {
    ...pubsub,
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'publish',
    'messaging.destination.name': topic,
    'messaging.batch.message_count': messages.length,
  };
  return { name: `send batch ${topic}`, kind: 'client', attributes };
}

/** One message, from its turn to the verdict on it. */
export function processMessageSpan(
  subscription: string,
  { id, attributes: told }: IncomingMessage,
): PaymentSpanSpec {
  const attributes = {
    ...pubsub,
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process',
    'messaging.destination.subscription.name': subscription,
    'messaging.message.id': id,
  };
  const parent = told['traceparent'] ?? '';
  return { name: `process ${subscription}`, kind: 'consumer', attributes, parent };
}
