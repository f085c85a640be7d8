import { appendFileSync, createReadStream, existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { System } from '@triplock/demo';
import type { Check } from './judge.ts';
import { acceptedOf, type K6Run } from './k6.ts';
import {
  checkHistory,
  followWebhooks,
  openHistory,
  readHistory,
  type HistoryRecorder,
  type HistoryReport,
} from '@triplock/inspect';

/** A load whose requests, answers and webhooks end up in one history. */
export type RecordedLoad = {
  /** A file for the console of the next k6 run. */
  nextConsole(folder: string): string;
  /**
   * To be called when nothing is in flight any more: writes the history, and judges it.
   *
   * @throws CommandError when webhooks came that nobody wrote down.
   */
  finish(run: { delivered: boolean }): Promise<JudgedHistory>;
};

/** What came of judging it, and where it is. */
export type JudgedHistory = Pick<HistoryReport, 'judged' | 'findings'> & {
  file: string;
  bytes: number;
};

/** Holds the history to the contract, and to what k6 counted: else it would say too little. */
export function judgeHistory(
  { judged, findings }: JudgedHistory,
  run: Pick<K6Run, 'tallies'>,
): Check[] {
  const equal = (what: string, found: number, expected: number) => {
    return { what, expected: `${expected}`, found, holds: found === expected };
  };
  return [
    equal('accepted, in the history', judged.accepted, acceptedOf(run)),
    equal('contradictions in the history', findings.length, 0),
  ];
}

type Webhook = { arrived: Parameters<HistoryRecorder['webhook']>[0]; at: Date };

/**
 * Begins to write down a load. k6 can write no file: its users say on their console what they are
 * about to ask and what they were answered, each line with its time, and the catcher says what came
 * to the partners. All of these have the clock of one machine, by which they are put in order when
 * the load is over; lines of k6 stay in the order in which it wrote them.
 *
 * @throws when the file is there already.
 */
export async function recordLoad(
  file: string,
  { endpoints }: Pick<System, 'endpoints'>,
): Promise<RecordedLoad> {
  const { claims, ledger, gateways, catcher } = endpoints;
  const what = `claims in ${claims}, ledger in ${ledger}, ${gateways.length} gateways`;
  const history = openHistory(file, what);
  const webhooks: Webhook[] = [];
  const following = await followWebhooks(
    { webhook: (arrived, at) => void webhooks.push({ arrived, at: at! }) },
    catcher,
  );
  const consoles: string[] = [];
  return {
    nextConsole: (folder) => {
      const console = join(folder, `k6-console-${consoles.length + 1}.ndjson`);
      consoles.push(console);
      return console;
    },
    finish: async ({ delivered }) => {
      await following.stop();
      for (const console of consoles) await writeConsole(history, { console, webhooks });
      for (const { arrived, at } of webhooks) history.webhook(arrived, at);
      // Nobody else uses a system under load: its counts would not hold either.
      history.over({ delivered, complete: true });
      history.close();
      const { judged, findings } = checkHistory(await readHistory(file));
      return { file, bytes: statSync(file).size, judged, findings };
    },
  };
}

/** A line of k6's console: an event of a history, but for its own number and time. */
type ConsoleLine = { at: number; n: string } & (
  | ({ what: 'asked' } & Omit<Parameters<HistoryRecorder['asked']>[0], 'by'>)
  | ({ what: 'answered' } & Parameters<HistoryRecorder['answered']>[1])
  | { what: 'unanswered'; why: string }
);

/**
 * Adds what a run of k6 wrote down, and takes of the webhooks those that came before each line.
 * What else is on the console goes to k6's own words.
 */
export async function writeConsole(
  history: HistoryRecorder,
  { console, webhooks }: { console: string; webhooks: Webhook[] },
): Promise<void> {
  // Where k6 ended before it began.
  if (!existsSync(console)) return;
  const numbers = new Map<string, number>();
  let next = 0;
  const lines = createInterface({ input: createReadStream(console), crlfDelay: Infinity });
  for await (const text of lines) {
    const line = readLine(text);
    if (line === undefined) {
      appendFileSync(join(console, '../k6.log'), `${text}\n`);
      continue;
    }
    const at = new Date(line.at);
    for (; next < webhooks.length && webhooks[next]!.at < at; next += 1) {
      history.webhook(webhooks[next]!.arrived, webhooks[next]!.at);
    }
    writeLine(history, { line, numbers });
  }
  webhooks.splice(0, next);
  rmSync(console);
}

function writeLine(
  history: HistoryRecorder,
  { line, numbers }: { line: ConsoleLine; numbers: Map<string, number> },
): void {
  const { at, n: name, ...rest } = line;
  const seen = new Date(at);
  if (rest.what === 'asked') {
    const { what: _, ...request } = rest;
    numbers.set(name, history.asked({ by: `k6-${name.split('-')[0]}`, ...request }, seen));
    return;
  }
  const n = numbers.get(name);
  if (n === undefined) throw new Error(`k6 was answered what it never asked: ${name}`);
  if (rest.what === 'unanswered') history.unanswered(n, rest.why, seen);
  else {
    const { what: _, ...answer } = rest;
    history.answered(n, answer, seen);
  }
}

/** The line of a user; nothing when it is another one, or was cut off when k6 ended. */
function readLine(text: string): ConsoleLine | undefined {
  if (!text.startsWith('{"what":')) return undefined;
  try {
    return JSON.parse(text) as ConsoleLine;
  } catch {
    return undefined;
  }
}
