import { driverOf, openInquiry } from './brokers.ts';
import type { BrokerConnection, ReceivedRecord, Stretch } from './driver.ts';
import { openAppends, type AppendLimits } from './group-commit.ts';

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

/** Records of one look, some dozen MB at most. */
const readAtOnce = 500n;
const readLimitMs = 120_000;

/**
 * Reads what was appended since a time, up to the archive's end of now, some hundred events at a
 * time and in their order within a partition.
 *
 * @throws when the brokers do not answer in time.
 */
export async function readEventArchive(
  options: BrokerConnection & { topic: string; since: Date },
  take: (texts: readonly Buffer[]) => Promise<void>,
): Promise<void> {
  for (const stretch of await stretchesSince(options)) {
    const records: ReceivedRecord[] = [];
    const driver = await driverOf(options);
    const taken = (read: readonly ReceivedRecord[]) => void records.push(...read);
    await driver.readStretches(options, {
      stretches: [stretch],
      take: taken,
      withinMs: readLimitMs,
    });
    for (const { value } of records) await take(linesOf(value));
  }
}

async function stretchesSince(
  options: BrokerConnection & { topic: string; since: Date },
): Promise<Stretch[]> {
  const { topic, since } = options;
  const inquiry = openInquiry(options);
  try {
    const there = await inquiry.ask((admin) => admin.bounds(topic));
    const starts = await inquiry.ask((admin) => admin.since(topic, since));
    return [...there].flatMap(([partition, { start, end }]) => {
      const stretches: Stretch[] = [];
      const first = starts.get(partition) ?? end;
      for (let from = first < start ? start : first; from < end; from += readAtOnce) {
        const to = from + readAtOnce < end ? from + readAtOnce : end;
        stretches.push({ partition, from, to });
      }
      return stretches;
    });
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
