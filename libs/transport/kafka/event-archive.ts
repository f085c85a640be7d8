import { openInquiry } from './brokers.ts';
import type { Bounds, BrokerConnection, Offsets, Stretch } from './driver.ts';
import { openAppends, type AppendLimits } from './group-commit.ts';
import { beginAt, readInPieces } from './read-in-pieces.ts';

/**
 * Texts of events that are about to be told, kept where a restore of the database does not reach. A
 * text is JSON and so has no line feed of its own: a record holds some of them, a line each,
 * because nearly all of what a record costs it costs by the record.
 */
export type EventArchive = {
  /**
   * Resolves when every in-sync replica has all of them: only then may they be told.
   *
   * @throws ProduceUnknownError or ProduceRefusedError; appended again they are there twice.
   */
  append(texts: readonly string[]): Promise<void>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Characters, of three bytes at most: well below what a broker takes in one batch
 * (`max.message.bytes`, 1 MiB unless set).
 */
const recordLengthMax = 128 * 1024;

const limits: AppendLimits = {
  timeoutMs: 1_500,
  gatherMs: 0,
  batchRecordsMax: 100,
  batchBytesMax: 512 * 1024,
  waitingRecordsMax: 1_000,
  waitingBytesMax: 64 * 1024 * 1024,
};

/** Opens the archive for appending; it connects by itself, also when no broker answers yet. */
export function openEventArchive(options: BrokerConnection & { topic: string }): EventArchive {
  const appends = openAppends(options, limits);
  return {
    ...appends,
    append: async (texts) => {
      const records = [...recordsOf(texts)];
      await Promise.all(records.map((value) => appends.append({ key: null, value })));
    },
  };
}

/** Of all texts together once: joined and encoded one by one they would cost twice as much. */
function* recordsOf(texts: readonly string[]): Generator<string> {
  let [from, length] = [0, 0];
  for (let at = 0; at < texts.length; at += 1) {
    if (at > from && length + texts[at]!.length > recordLengthMax) {
      yield linesFrom(texts, from, at);
      [from, length] = [at, 0];
    }
    length += texts[at]!.length + 1;
  }
  if (texts.length > from) yield linesFrom(texts, from, texts.length);
}

function linesFrom(texts: readonly string[], from: number, to: number): string {
  return `${texts.slice(from, to).join('\n')}\n`;
}

/**
 * Up to where the archive was read, by partition, and how many records before were there no more.
 */
export type ArchiveRead = { end: Offsets; gone: bigint };

/**
 * Reads what was appended since a time, or from offsets on, up to the archive's end of now, some
 * hundred events at a time and in their order within a partition. Gives that end, by partition.
 *
 * From offsets that are not in the log, of a topic that was made anew, it reads all that is there.
 *
 * @throws when the brokers do not answer in time.
 */
export async function readEventArchive(
  options: BrokerConnection & { topic: string } & ({ since: Date } | { from: Offsets }),
  take: (texts: readonly Buffer[]) => Promise<void>,
): Promise<ArchiveRead> {
  const { stretches, ...read } = await findStretches(options);
  await readInPieces(options, stretches, async (records) => {
    for (const { value } of records) await take(linesOf(value));
  });
  return read;
}

async function findStretches(
  options: BrokerConnection & { topic: string } & ({ since: Date } | { from: Offsets }),
): Promise<ArchiveRead & { stretches: Stretch[] }> {
  const { topic } = options;
  const inquiry = openInquiry(options);
  try {
    const there = await inquiry.ask((admin) => admin.bounds(topic));
    const starts =
      'from' in options
        ? options.from
        : await inquiry.ask((admin) => admin.since(topic, options.since));
    const otherwise = (bounds: Bounds) => ('from' in options ? bounds.start : bounds.end);
    let gone = 0n;
    const stretches = [...there].map(([partition, bounds]) => {
      const { start, end } = bounds;
      const wanted = starts.get(partition) ?? otherwise(bounds);
      if (wanted < start) gone += start - wanted;
      return { partition, from: beginAt(wanted, bounds), to: end };
    });
    return { stretches, gone, end: new Map([...there].map(([each, { end }]) => [each, end])) };
  } finally {
    await inquiry.close();
  }
}

const lineFeed = 0x0a;

function linesOf(value: Buffer | null): Buffer[] {
  const lines: Buffer[] = [];
  let from = 0;
  for (let at = 0; value !== null && at < value.length; at += 1) {
    if (value[at] !== lineFeed) continue;
    lines.push(value.subarray(from, at));
    from = at + 1;
  }
  return lines;
}

/** Reads the archive; each call connects anew, since it is seldom asked. */
export type EventArchiveReader = {
  /** The next offset of each partition: what is appended from now on comes there. */
  end(): Promise<Offsets>;
  /** As {@link readEventArchive}, from offsets on; of other partitions from their beginning. */
  readFrom(from: Offsets, take: (texts: readonly Buffer[]) => Promise<void>): Promise<ArchiveRead>;
};

/** Opens a reader of the archive. */
export function openEventArchiveReader(
  options: BrokerConnection & { topic: string },
): EventArchiveReader {
  return {
    end: async () => (await findStretches({ ...options, from: new Map() })).end,
    readFrom: (from, take) => readEventArchive({ ...options, from }, take),
  };
}
