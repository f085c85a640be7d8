import type { KafkaMessage } from 'kafkajs';
import type { ReceivedRecord } from './log.ts';

/** A record with its place, its bytes as they came. */
export function receivedRecord(
  place: { topic: string; partition: number },
  message: KafkaMessage,
): ReceivedRecord {
  return {
    topic: place.topic,
    partition: place.partition,
    offset: BigInt(message.offset),
    key: message.key,
    value: message.value,
    // kafkajs gives bytes for what it read, one value or a list; strings only go the other way.
    headers: (message.headers ?? {}) as ReceivedRecord['headers'],
    timestamp: message.timestamp,
  };
}
