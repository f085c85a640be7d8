import { decodeAccepted } from '@triplock/contracts';
import type { Continuity } from '@triplock/ledger';
import type { AcceptedFollowUp, AcceptedPayment } from '@triplock/payments';
import type { ReceivedRecord } from '@triplock/transport';
import { settleAndReport } from './consumer.ts';
import type { Worker } from '../worker.ts';

/** Posts records once more, beside the group. */
export type PostAgain = {
  /** Those of them that the ledger lacks. */
  lackingOf(records: readonly ReceivedRecord[]): Promise<readonly ReceivedRecord[]>;
  /** Takes records of one partition to their end, in their order. @throws in an outage. */
  post(records: readonly ReceivedRecord[]): Promise<void>;
};

/**
 * Posts records of which the ledger has no row: it was set back by so little that nothing which was
 * told is lacking. Whatever else happens to them meanwhile, as when their batch comes to a worker,
 * meets the row, which is success. A record that is no request lacks nothing: it is a dead letter
 * since before the group passed it, and Kafka was not set back.
 */
export function openPostAgain(
  worker: Worker,
  continuity: Pick<Continuity, 'findUnposted'>,
): PostAgain {
  return {
    lackingOf: async (records) => {
      const requests = new Map(records.flatMap(requestOf));
      if (requests.size === 0) return [];
      const unposted = await continuity.findUnposted([...requests.keys()]);
      return unposted.map((request) => requests.get(request)!);
    },
    post: async (records) => {
      const [first, last] = [records[0], records.at(-1)];
      if (first === undefined || last === undefined) return;
      await settleAndReport(worker, {
        partition: first.partition,
        records,
        from: first.offset,
        next: last.offset + 1n,
        end: last.offset + 1n,
        // The group knows nothing of it.
        heartbeat: async () => undefined,
        isStale: () => false,
      });
    },
  };
}

function requestOf(
  record: ReceivedRecord,
): [request: AcceptedPayment | AcceptedFollowUp, record: ReceivedRecord][] {
  const decoded = decodeAccepted(record);
  switch (decoded.outcome) {
    case 'payment':
      return [[decoded.payment, record]];
    case 'follow-up':
      return [[decoded.followUp, record]];
    case 'refused':
      return [];
  }
  return decoded satisfies never;
}
