import type { EncodedRecord } from '@triplock/contracts';
import { carriedTraceparent, inSpan, isTracing } from '@triplock/runtime';
import { appendInBatches, type AppendLimits } from './append-in-batches.ts';
import { openInquiry } from './ask-brokers.ts';
import { connectProducer } from './idempotent-producer.ts';
import type { BrokerConnection } from './kafka-client.ts';
import { sendRecordSpan } from './kafka-spans.ts';
import type { GroupCommit } from './log.ts';

/** Where to append, and within which limits. */
export type GroupCommitOptions = BrokerConnection & {
  topic: string;
  limits?: Partial<AppendLimits>;
};

/**
 * Half of the 3 s in which a caller must have its answer, so that the claim can still be given up.
 * Nearly all of a record's CPU goes by batches, so gathering for some milliseconds more is cheaper,
 * and the answer comes as much later.
 * A batch stays under the brokers' 1 MiB (`max.message.bytes`) even when one partition gets it all.
 * What waits is bounded so that an outage costs refusals and not memory.
 */
const defaultLimits: AppendLimits = {
  timeoutMs: 1_500,
  gatherMs: 4,
  batchRecordsMax: 1_000,
  batchBytesMax: 512 * 1024,
  waitingRecordsMax: 10_000,
  waitingBytesMax: 64 * 1024 * 1024,
};

/** Opens a group commit. It connects by itself, also when no broker answers yet. */
export function openGroupCommit(options: GroupCommitOptions): GroupCommit {
  const limits = { ...defaultLimits, ...options.limits };
  const connect = () => connectProducer({ ...options, sendLimitMs: limits.timeoutMs });
  const batches = appendInBatches({ connect, limits, logger: options.logger });
  const inquiry = openInquiry(options);
  const toSend = sendRecordSpan(options.topic);
  return {
    append: ({ key, value, headers }) =>
      inSpan({ ...toSend, parent: headers.traceparent }, () =>
        batches.append({ key, value, headers: carriedBy(headers) }),
      ),
    ping: async () => {
      await inquiry.ping(options.topic);
      if (!batches.isConnected()) throw new Error('no producer is connected');
    },
    close: async () => {
      await batches.close();
      await inquiry.close();
    },
  };
}

/**
 * The record carries the span in which it is sent, so that what is done with it follows from there.
 */
function carriedBy(headers: EncodedRecord['headers']): EncodedRecord['headers'] {
  if (!isTracing()) return headers;
  return { ...headers, traceparent: carriedTraceparent(headers.traceparent) };
}
