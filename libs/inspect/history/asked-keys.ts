import {
  findCardData,
  isJsonObject,
  parseIdempotencyKey,
  parseStrictJson,
  transactionContracts,
} from '@triplock/contracts';
import {
  type Fingerprint,
  type JsonObject,
  type PartnerId,
  type TransactionKind,
  type TxnId,
  deriveTxnId,
  fingerprint,
  hasCardNumber,
  isFollowUp,
} from '@triplock/payments';
import type {
  Answered,
  Asked,
  HistoryCheck,
  HistoryFinding,
  HistoryLine,
  Unanswered,
} from './history.ts';

/** A request and how it ended; without `end` it was under way when the history ended. */
export type Sent = Asked & {
  line: number;
  end?: (Answered | Unanswered) & { line: number };
};

/** What an answer says of a request. Nothing, a 5xx or an unknown status says nothing. */
export type Outcome = 'accepted' | 'in-use' | 'reused' | 'refused' | 'unknown';

/** What a valid request asks for. */
type AskedFor = {
  fingerprint: Fingerprint;
  /** As every answer shows it. */
  fields: JsonObject;
  /** Of what follows a payment: that one. */
  paymentId?: string;
};

/** A request under a key. Without `wanted` it could not be accepted. */
export type KeyRequest = Sent & { outcome: Outcome; wanted?: AskedFor };

/** All requests under one key of one partner and kind, in the order in which they were sent. */
export type AskedKey = {
  id: TxnId;
  partner: string;
  kind: TransactionKind;
  key: string;
  requests: readonly KeyRequest[];
};

/** Requests as they were sent, with their answers. */
export function pairRequests(lines: readonly HistoryLine[]): {
  requests: Sent[];
  findings: HistoryFinding[];
} {
  const requests = new Map<number, Sent>();
  const findings: HistoryFinding[] = [];
  const find = (check: HistoryFinding['check'], [n, ...at]: [number, ...number[]], why: string) =>
    findings.push({ check, about: `request ${n}`, ids: [], lines: at, why });
  for (const each of lines) {
    if (each.what === 'asked') {
      const first = requests.get(each.n);
      if (first === undefined) requests.set(each.n, { ...each });
      else find('answered-twice', [each.n, first.line, each.line], 'two requests have this number');
    }
    if (each.what !== 'answered' && each.what !== 'unanswered') continue;
    const request = requests.get(each.n);
    if (request === undefined) {
      find('answered-unasked', [each.n, each.line], 'it ends before it was sent');
    } else if (request.end !== undefined) {
      find('answered-twice', [each.n, request.end.line, each.line], 'it has two ends');
    } else request.end = each;
  }
  return { requests: [...requests.values()], findings };
}

/** The requests that ask for a payment or what follows one, by the id made from their key. */
export function gatherKeys(requests: readonly Sent[]): {
  keys: ReadonlyMap<TxnId, AskedKey>;
  /** Those whose key is missing or malformed. */
  keyless: readonly Sent[];
} {
  const keys = new Map<TxnId, AskedKey & { requests: KeyRequest[] }>();
  const keyless: Sent[] = [];
  // Retries are many and the same: each body is read once.
  const read = new Map<string, AskedFor | undefined>();
  const wantedBy = (request: Sent) => {
    const text = `${request.method} ${request.path}\n${request.body}`;
    if (!read.has(text)) read.set(text, readWanted(request));
    return read.get(text);
  };
  for (const request of requests) {
    const { kind, partner } = request;
    if (kind === 'read') continue;
    const parsed = parseIdempotencyKey(request.key === undefined ? [] : [request.key]);
    if (parsed.outcome !== 'key') {
      keyless.push(request);
      continue;
    }
    const { key } = parsed;
    const id = deriveTxnId(kind, partner as PartnerId, key);
    const known = keys.get(id) ?? { id, partner, kind, key, requests: [] };
    // The partners of a history may not send what looks like a card's number, a key neither.
    const wanted = hasCardNumber(key) ? undefined : wantedBy(request);
    known.requests.push({ ...request, outcome: outcomeOf(request), ...(wanted && { wanted }) });
    keys.set(id, known);
  }
  return { keys, keyless };
}

function outcomeOf({ end }: Sent): Outcome {
  if (end?.what !== 'answered') return 'unknown';
  switch (end.status) {
    case 202:
      return 'accepted';
    case 409:
      return 'in-use';
    case 422:
      return 'reused';
    default:
      return end.status >= 400 && end.status < 500 ? 'refused' : 'unknown';
  }
}

/** What a request asks for, by the rules of the gateway; nothing when it has to be refused. */
function readWanted({ kind, method, path, body }: Sent): AskedFor | undefined {
  if (kind === 'read' || method !== 'POST' || body === undefined) return undefined;
  const json = parseStrictJson(Buffer.from(body));
  if (json.outcome === 'refused' || !isJsonObject(json.value)) return undefined;
  if (findCardData(json.value, []).length > 0) return undefined;
  if (isFollowUp(kind)) {
    const [, paymentId, asked] = /^\/v1\/payments\/([^/?]+)\/(\w+)$/.exec(path) ?? [];
    const follows = transactionContracts[kind].validate(json.value);
    if (asked !== `${kind}s` || follows.outcome === 'invalid') return undefined;
    const fields = { payment: paymentId!, ...follows.body };
    const own = fingerprint({ method, path, body: follows.body });
    return { fingerprint: own, fields, paymentId: paymentId! };
  }
  const payment = transactionContracts[kind].validate(json.value);
  if (path !== `/v1/${kind}s` || payment.outcome === 'invalid') return undefined;
  return { fingerprint: fingerprint({ method, path, body: payment.body }), fields: payment.body };
}

/** Whether a request may have claimed its key: it was accepted, or nobody knows. */
export function mayHaveClaimed({ wanted, outcome }: KeyRequest): boolean {
  return wanted !== undefined && (outcome === 'accepted' || outcome === 'unknown');
}

/** Whether it got the answer of an earlier one. */
export function isReplay({ end }: Sent): boolean {
  return end?.what === 'answered' && end.replayed === true;
}

/** The line at which a request ended; none when it was under way to the end. */
export function endLine({ end }: Sent): number {
  return end?.line ?? Number.POSITIVE_INFINITY;
}

/** A transaction as a person finds it in a history. */
export function nameOf({ partner, kind, key }: Pick<AskedKey, 'partner' | 'kind' | 'key'>): string {
  return `${partner} ${kind} ${key}`;
}

/** Whether it got a 202. */
export function isAccepted({ end }: Sent): boolean {
  return end?.what === 'answered' && end.status === 202;
}

/** The request of a key whose 202 came first. */
export function firstAccepted({ requests }: AskedKey): KeyRequest | undefined {
  let first: KeyRequest | undefined;
  for (const each of requests) {
    if (isAccepted(each) && (first === undefined || endLine(each) < endLine(first))) first = each;
  }
  return first;
}

/** A finding about a key, at the lines of these requests. */
export function foundIn(
  key: AskedKey,
  check: HistoryCheck,
  { requests, why }: { requests: readonly Sent[]; why: string },
): HistoryFinding {
  const lines = requests.flatMap(({ line, end }) =>
    end === undefined ? [line] : [line, end.line],
  );
  return { check, about: nameOf(key), ids: [key.id], lines, why };
}

/** How many of some sorted numbers are smaller. */
export function countBelow(sorted: readonly number[], limit: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
