import { createReadStream } from 'node:fs';
import { mkdir, open, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import type {
  ChargeRecord,
  DisputeRecord,
  EventRecord,
  PaymentIntentRecord,
  PaymentMethodRecord,
  RefundRecord,
} from '../records.ts';

/** An append-only file of JSON lines: the provider's own truth, which survives SIGKILL. */
export type Journal = {
  /** Takes the entry in order; it is durable once `settled()` resolves. */
  append(entry: Entry): void;
  /** Resolves when everything appended so far is on disk. Rejects for ever once a write failed. */
  settled(): Promise<void>;
  /** Bytes that are on disk: whole lines only. */
  size(): number;
  close(): Promise<void>;
};

/** Who wants to know of a journal. */
export type JournalListener = {
  /** Called with every entry that is there, in order, before the journal is open. */
  replay(entry: Entry): void;
  /** Called once when it cannot be written: whoever goes on would promise what is not kept. */
  broken(error: Error): void;
};

/** Clients' secrets and what was paid are in it. */
const ownerOnly = 0o600;

/**
 * Opens a journal, hands every entry to `replay`, and is then ready to append. A last line without
 * its end was never acknowledged to anyone and is cut off; any other line that cannot be read is
 * damage, and the simulator does not start on it.
 *
 * @throws with the number of the line that cannot be read.
 */
export async function openJournal(path: string, listener: JournalListener): Promise<Journal> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'a+', ownerOnly);
  // One of an earlier version was anybody's to read, who has an account here.
  await file.chmod(ownerOnly);
  let number = 0;
  let whole = 0;
  for await (const line of readWholeLines(path)) {
    number += 1;
    whole += line.length + 1;
    listener.replay(parseLine(line, { path, number }));
  }
  await file.truncate(whole);
  return groupWrites(file, whole, listener);
}

function parseLine(line: Buffer, at: { path: string; number: number }): Entry {
  try {
    return JSON.parse(line.toString('utf8')) as Entry;
  } catch (cause) {
    throw new Error(`${at.path}: line ${at.number} cannot be read`, { cause });
  }
}

/** One write and one fsync for everything that came while the last one was under way. */
function groupWrites(file: FileHandle, start: number, listener: JournalListener): Journal {
  let size = start;
  let waiting: string[] = [];
  let writing: Promise<void> | undefined;
  let broken: Error | undefined;

  const writeAll = async () => {
    // Entries of the same tick belong to one group.
    await Promise.resolve();
    while (waiting.length > 0) {
      const group = Buffer.from(waiting.join(''));
      waiting = [];
      await file.appendFile(group);
      await file.datasync();
      size += group.length;
    }
  };
  const startWriting = () =>
    writeAll()
      .catch((cause: unknown) => {
        broken = new Error('the journal cannot be written', { cause });
        listener.broken(broken);
      })
      .finally(() => {
        writing = undefined;
      });

  const settled = async () => {
    await writing;
    if (broken !== undefined) throw broken;
  };
  return {
    append(entry) {
      if (broken !== undefined) throw broken;
      waiting.push(`${JSON.stringify(entry)}\n`);
      writing ??= startWriting();
    },
    settled,
    size: () => size,
    async close() {
      await writing;
      await file.close();
      if (broken !== undefined) throw broken;
    },
  };
}

const newline = 0x0a;

/** The lines of a file that have their end, as bytes without it, however large the file is. */
async function* readWholeLines(path: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
      yield bytes.subarray(start, end);
      start = end + 1;
    }
    rest = bytes.subarray(start);
  }
}

/** What one step of the simulator made of the world: new versions of records, and events. */
export type Change = {
  readonly paymentIntents?: readonly PaymentIntentRecord[];
  readonly paymentMethods?: readonly PaymentMethodRecord[];
  readonly charges?: readonly ChargeRecord[];
  readonly refunds?: readonly RefundRecord[];
  readonly disputes?: readonly DisputeRecord[];
  readonly events?: readonly EventRecord[];
};

/** The first answer under an idempotency key, as every retry gets it again. */
export type KeptAnswer = {
  readonly key: string;
  readonly path: string;
  /** Covers the method, the path and the parameters; the retry's must be the same. */
  readonly fingerprint: string;
  readonly requestId: string;
  readonly status: number;
  readonly body: string;
};

/**
 * A line of the journal. A change and the answer that is kept for it are one line, so that a crash
 * leaves both or neither. `at` is the simulator's clock, in ms.
 */
export type Entry =
  | {
      readonly kind: 'step';
      readonly at: number;
      readonly by: string;
      readonly change: Change;
      readonly answer?: KeptAnswer;
      readonly webhooks: boolean;
    }
  | {
      readonly kind: 'webhook';
      readonly at: number;
      readonly event: string;
      readonly end: 'delivered' | 'gave-up';
    }
  | { readonly kind: 'clock'; readonly at: number; readonly offsetMs: number }
  | { readonly kind: 'reset'; readonly at: number };
