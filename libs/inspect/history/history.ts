import { createReadStream, existsSync } from 'node:fs';
import { UsageError } from '@triplock/command';
import { transactionKinds, type TransactionKind } from '@triplock/payments';

/** The first line of a history. */
export type HistoryHead = {
  /** The version of this format. */
  history: 1;
  /** When it began: RFC 3339, UTC. Every `at` is in milliseconds since then. */
  began: string;
  /** Which system was asked, for people. */
  system: string;
};

/**
 * A request is about to be sent; this line is there before its first byte is. `key` is the header's
 * value and `body` the text that is sent; neither headers nor API keys are in a history.
 */
export type Asked = {
  what: 'asked';
  at: number;
  /** Names the request in this history. */
  n: number;
  /** Which client sends it. */
  by: string;
  partner: string;
  kind: TransactionKind | 'read';
  method: string;
  path: string;
  key?: string;
  body?: string;
};

/** The whole answer has come. */
export type Answered = {
  what: 'answered';
  at: number;
  n: number;
  status: number;
  /** Whether it had `Idempotency-Replayed: true`. */
  replayed?: boolean;
  /** Seconds, as `Retry-After` said. */
  retryAfter?: number;
  body: string;
};

/** The client gave up: the request may have taken effect, or may yet. */
export type Unanswered = { what: 'unanswered'; at: number; n: number; why: string };

/** A request came to a partner's endpoint and was about to be answered. */
export type WebhookArrived = {
  what: 'webhook';
  at: number;
  partner: string;
  /** Its `webhook-id`. */
  id: string;
  /** Whether its signature held. */
  verified: boolean;
  body: string;
};

/** Something was broken on purpose. */
export type FaultDone = { what: 'fault'; at: number; name: string; detail?: string };

/** The run came to its end by itself. Without this line neither of its sentences is assumed. */
export type RunOver = {
  what: 'over';
  at: number;
  /** The run waited until nothing was in flight: whatever is not here by now is lost. */
  delivered: boolean;
  /** Nobody else asked this system for anything since `began`. */
  complete: boolean;
};

/** One line of a history after its first. */
export type HistoryEvent = Asked | Answered | Unanswered | WebhookArrived | FaultDone | RunOver;

/** An event and where it stands, counted from 1. */
export type HistoryLine = HistoryEvent & { line: number };

/** A history as it was read. Lines stand in the order in which their writer saw them. */
export type History = {
  head: HistoryHead;
  lines: readonly HistoryLine[];
  /** The last line, when its writer was killed while writing it; it is left out. */
  torn?: number;
};

/**
 * Reads a file of them; about 1 KiB of memory a line.
 *
 * @throws UsageError that names the line that is none, or the file that is not there.
 */
export async function readHistory(file: string): Promise<History> {
  const reader = startReading();
  let rest = '';
  if (!existsSync(file)) throw new UsageError(`there is no file ${file}`);
  // Not by node:readline, which would also split at U+2028, and a partner's text may have that.
  for await (const chunk of createReadStream(file, 'utf8') as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    for (const part of parts) reader.add(part);
  }
  if (rest !== '') reader.add(rest);
  return reader.end();
}

/** The same of a text. @throws UsageError that names the line that is none. */
export function parseHistory(text: string): History {
  const reader = startReading();
  const parts = text.split('\n');
  if (parts.at(-1) === '') parts.pop();
  for (const part of parts) reader.add(part);
  return reader.end();
}

function startReading() {
  const lines: HistoryLine[] = [];
  let head: HistoryHead | undefined;
  let line = 0;
  let torn: number | undefined;
  const refuse = (why: string) => new UsageError(`no history: line ${line} ${why}`);
  return {
    add(text: string): void {
      if (torn !== undefined) throw refuse('is not JSON, and others follow it');
      line += 1;
      const value = parseObject(text);
      if (value === undefined) torn = line;
      else if (head === undefined) head = readHead(value, refuse);
      else lines.push({ ...readEvent(value, refuse), line });
    },
    end(): History {
      if (head === undefined) throw new UsageError('no history: its first line is missing');
      return { head, lines, ...(torn !== undefined && { torn }) };
    },
  };
}

type Refuse = (why: string) => UsageError;

/** Members of a JSON object of which nothing is known. */
export type Fields = Readonly<Record<string, unknown>>;

/** The JSON object that a text is; nothing when it is none, as what a cut-off write leaves. */
export function parseObject(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Fields)
      : undefined;
  } catch {
    return undefined;
  }
}

function readHead(value: Fields, refuse: Refuse): HistoryHead {
  if (value['history'] !== 1) throw refuse('does not begin one: {"history":1,…}');
  if (typeof value['began'] !== 'string' || Number.isNaN(Date.parse(value['began']))) {
    throw refuse('has no time for began');
  }
  if (typeof value['system'] !== 'string') throw refuse('has no text for system');
  return value as HistoryHead;
}

/** What each line has besides `what` and `at`; a question mark where it may be missing. */
const fieldsOf: Readonly<Record<HistoryEvent['what'], Readonly<Record<string, string>>>> = {
  asked: {
    n: 'number',
    by: 'string',
    partner: 'string',
    kind: 'string',
    method: 'string',
    path: 'string',
    key: 'string?',
    body: 'string?',
  },
  answered: {
    n: 'number',
    status: 'number',
    body: 'string',
    replayed: 'boolean?',
    retryAfter: 'number?',
  },
  unanswered: { n: 'number', why: 'string' },
  webhook: { partner: 'string', id: 'string', verified: 'boolean', body: 'string' },
  fault: { name: 'string', detail: 'string?' },
  over: { delivered: 'boolean', complete: 'boolean' },
};

const askedKinds = new Set<unknown>([...transactionKinds, 'read']);

function readEvent(value: Fields, refuse: Refuse): HistoryEvent {
  const { what, at } = value;
  if (typeof what !== 'string' || !Object.hasOwn(fieldsOf, what)) {
    throw refuse('says of nothing known what happened');
  }
  if (typeof at !== 'number') throw refuse('has no number for at');
  for (const [name, wanted] of Object.entries(fieldsOf[what as HistoryEvent['what']])) {
    const found = value[name];
    if (found === undefined && wanted.endsWith('?')) continue;
    if (typeof found !== wanted.replace('?', '')) throw refuse(`has no ${wanted} for ${name}`);
  }
  if (what === 'asked' && !askedKinds.has(value['kind'])) {
    throw refuse('asks for nothing that follows a payment, no payment and no read');
  }
  return value as HistoryEvent;
}

/** What a history is checked for, by name, and what each of them finds. */
export const historyChecks = {
  // Of one answer.
  'id-not-derived': 'an accepted id that does not follow from kind, partner and key',
  'answer-altered': 'a 202 that does not show what was asked for',
  'accepted-invalid': 'a 202 for what could not be accepted: no key, or no valid body',
  'refusal-replayed': 'a refusal that was stored as the answer of its key',
  'answer-unknown': 'a status that the contract does not have',
  'retry-after-missing': 'a 409 or 503 that does not say when to ask again',
  // Of all answers of one key.
  'replay-differs': 'two answers to one request whose bytes differ',
  'two-bodies-accepted': 'two requests accepted under one key',
  'replay-of-nothing': 'a replay of an answer that nobody can have got before',
  'accepted-again': 'a retry that was accepted anew and not replayed',
  'in-use-unfounded': 'a 409 while no request of that key can have been at work',
  'reused-unfounded': 'a 422 although no other request had used the key',
  'refused-took-effect': 'a request that was refused, and took effect',
  'accepted-then-refused': 'a request that was refused after it had been accepted',
  'refund-not-found': 'a 404 for a refund of an own, accepted payment',
  // Of what reads and webhooks show.
  'effect-unasked': 'a transaction that nobody asked for',
  'effect-altered': 'a transaction that is not as it was asked for',
  'seen-by-another': 'a transaction shown to another partner than its own',
  'read-not-found': 'an accepted transaction that a read does not find',
  'read-mismatch': 'a read that shows another transaction than the one asked for',
  'final-changed': 'a transaction with two final states',
  'final-undone': 'a transaction that is pending again',
  'final-altered': 'a final transaction whose details changed',
  'never-final': 'an accepted transaction that never became final: it is lost',
  'refund-exceeds': 'refunds that exceed their payment',
  'refund-of-failed': 'a refund of a payment that failed',
  'refunded-differs': 'a payment whose amount_refunded is not the sum of its refunds',
  // Of webhooks.
  'webhook-missing': 'a final transaction without its webhook',
  'webhook-malformed': 'a webhook that contradicts itself',
  'webhook-unverified': 'a webhook whose signature does not hold',
  'webhook-copy-differs': 'two copies of one event whose bytes differ',
  'webhook-id-not-derived': 'an event id that does not follow from transaction and type',
  'webhook-of-another': "a webhook about another partner's transaction",
  'sequence-repeated': 'two events of a payment with one number',
  'sequence-gap': 'events of a payment that are not numbered 1 to n',
  'conflict-unfounded': 'a key conflict for a request that cannot have lost its key',
  // Of all of it.
  'sums-differ': 'amounts asked for and amounts that partners were informed of differ',
  'answered-unasked': 'an answer to a request that nobody sent',
  'answered-twice': 'a request with two answers, or a number that names two requests',
  'proves-nothing': 'nothing was accepted, so nothing is proven',
} as const;

export type HistoryCheck = keyof typeof historyChecks;

/** Something that no order of the requests explains, and the lines that show it. */
export type HistoryFinding = {
  check: HistoryCheck;
  /** What it is about: partner, kind and key, or an id. */
  about: string;
  /** Of transactions and events. */
  ids: readonly string[];
  /** Of the file, counted from 1. */
  lines: readonly number[];
  /** What is wrong, in one sentence. */
  why: string;
};
