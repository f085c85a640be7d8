import { inBatches, inBatchSpan, type BatchLimits } from '@triplock/runtime';
import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';

/** Lets events share a transaction; each batch of several payments is a trace of its own. */
export function gatherEvents(
  receiveMany: (received: readonly ReceivedEvent[]) => Promise<ReceiveOutcome[]>,
  limits: BatchLimits,
): (received: ReceivedEvent) => Promise<ReceiveOutcome> {
  return inBatches((events) => {
    const of = () => events.flatMap(({ traceparent }) => traceparent ?? []);
    return inBatchSpan({ name: 'admit events', of }, () => receiveMany(events));
  }, limits);
}
