import type { Bounds, BrokerConnection, ReceivedRecord, Stretch } from './driver.ts';
import { readStretches } from './topic-reader.ts';

/** Records of one look, some dozen MB at most. */
const readAtOnce = 500n;
const readLimitMs = 120_000;

/**
 * Reads stretches of a topic one after the other, each in its order, some hundred records at a
 * time; the next are read when those before were taken. An empty stretch is passed over.
 *
 * @throws when the brokers do not answer in time.
 */
export async function readInPieces(
  options: BrokerConnection & { topic: string },
  stretches: readonly Stretch[],
  take: (records: readonly ReceivedRecord[]) => Promise<void>,
): Promise<void> {
  for (const piece of stretches.flatMap((stretch) => [...piecesOf(stretch)])) {
    const records: ReceivedRecord[] = [];
    await readStretches(options, {
      stretches: [piece],
      take: (read) => void records.push(...read),
      withinMs: readLimitMs,
    });
    await take(records);
  }
}

function* piecesOf({ partition, from: first, to: end }: Stretch): Generator<Stretch> {
  for (let from = first; from < end; from += readAtOnce) {
    yield { partition, from, to: from + readAtOnce < end ? from + readAtOnce : end };
  }
}

/** Where to begin a partition: at an offset, or at the log's start where that is not in the log. */
export function beginAt(wanted: bigint, { start, end }: Bounds): bigint {
  return wanted < start || wanted > end ? start : wanted;
}
