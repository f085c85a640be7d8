import type { TxnId } from '@triplock/payments';
import {
  type AskedKey,
  type KeyRequest,
  type Sent,
  countBelow,
  endLine,
  foundIn,
  isAccepted,
  isReplay,
  mayHaveClaimed,
} from './asked-keys.ts';
import type { HistoryCheck, HistoryFinding } from './history.ts';

/** What the keys of a history are judged by. */
export type KeysOfHistory = {
  keys: ReadonlyMap<TxnId, AskedKey>;
  /** The line of the first fault; infinite when there was none. */
  firstFault: number;
  /** Whether everything that was in flight is in the history. */
  delivered: boolean;
  /** Fingerprints that lost their key, as the partners' webhooks said. */
  lostKeys: ReadonlyMap<string, ReadonlySet<string>>;
};

/** How long a claim is held by one who does not answer any more: the gateway's lease. */
const leaseMs = 30_000;
/** A request that its client gave up may still reach a claim, by a gateway that stood still. */
const lateMs = 60_000;
/**
 * A gateway gives a 202 although the claim store did not take the answer. Without a fault that
 * needs a store which is late, so the answer is, too.
 */
const slowMs = 1_000;

/**
 * Judges the answers of each key together. A key is a register that is written once: some order of
 * the requests, each at one moment between its first byte and its answer, must explain every
 * answer. One that never came may stand anywhere, also nowhere. The rules are those of guard 1;
 * takes n log n of a key's requests.
 */
export function checkKeys(history: KeysOfHistory): HistoryFinding[] {
  return [...history.keys.values()].flatMap((key) => checkKey(history, key));
}

/** Requests of a key that ask for the same, and what came of them together. */
type Body = {
  requests: readonly KeyRequest[];
  accepted: readonly KeyRequest[];
  /** The first of them that may have claimed the key. */
  claimer: KeyRequest | undefined;
};

/** A key, and what may have happened to its claim. */
type Judging = {
  key: AskedKey;
  firstFault: number;
  /** Two bodies raced while the claims were lost: guard 2 decides, and a webhook informs of it. */
  isContested: boolean;
};

function checkKey({ firstFault, delivered, lostKeys }: KeysOfHistory, key: AskedKey) {
  const bodies = [...Map.groupBy(key.requests, ({ wanted }) => wanted?.fingerprint).values()].map(
    (requests): Body => ({
      requests,
      accepted: requests.filter(isAccepted),
      claimer: requests.find(mayHaveClaimed),
    }),
  );
  const claimed = bodies
    .filter(({ claimer }) => claimer !== undefined)
    .sort((one, other) => one.claimer!.line - other.claimer!.line);
  const lost = lostKeys.get(key.id);
  // Where not everything has come, a webhook about it may be on its way.
  const mayHaveRaced = !delivered && claimed.length > 1 && firstFault < Number.POSITIVE_INFINITY;
  const judging = { key, firstFault, isContested: lost !== undefined || mayHaveRaced };
  const winners = claimed.filter(
    ({ accepted: [first] }) => first !== undefined && !lost?.has(first.wanted!.fingerprint),
  );
  return [
    ...bodies.flatMap((body) => [
      ...checkAccepted(judging, body),
      ...checkInUse(judging, body, winners),
      ...checkRefused(judging, body, claimed),
    ]),
    ...(mayHaveRaced ? [] : checkOneBody(key, winners)),
  ];
}

/** All answers to one request are the same bytes, and only the first one is not a replay. */
function checkAccepted({ key, firstFault }: Judging, { requests, accepted }: Body) {
  const findings: HistoryFinding[] = [];
  const find = (check: HistoryCheck, some: readonly KeyRequest[], why: string) =>
    findings.push(foundIn(key, check, { requests: some, why }));
  const [first] = accepted;
  const other = accepted.find((each) => bodyOf(each) !== bodyOf(first!));
  if (other !== undefined) {
    find('replay-differs', [first!, other], 'two answers to one request have other bytes');
  }
  const source = requests.find((each) => mayHaveClaimed(each) && !isReplay(each));
  const early = accepted.find((each) => isReplay(each) && !(source && source.line < endLine(each)));
  if (early !== undefined) {
    find('replay-of-nothing', [early], 'nobody can have been accepted by then');
  }
  const fresh = accepted.filter((each) => !isReplay(each));
  if (fresh.length > 1 && !fresh.some((each) => mayNotBeKept(each, firstFault))) {
    const why = `${fresh.length} answers are no replays, and nothing was broken`;
    find('accepted-again', fresh.slice(0, 2), why);
  }
  return findings;
}

/** Whether a 202 may have been given although the claim store did not take it. */
function mayNotBeKept(request: KeyRequest, firstFault: number): boolean {
  return firstFault < endLine(request) || request.end!.at - request.at >= slowMs;
}

/**
 * A 409 needs another request of the same body that holds the claim at some moment of this one:
 * under way meanwhile, or ended before with a claim that nobody completed, whose lease goes on.
 */
function checkInUse(
  { key, firstFault, isContested }: Judging,
  body: Body,
  winners: readonly Body[],
): HistoryFinding[] {
  const inUse = body.requests.filter(({ outcome }) => outcome === 'in-use');
  if (inUse.length === 0) return [];
  // Who loses a key was never at work on it, unless the claims were lost before another won it.
  const others = winners.filter((each) => each !== body);
  const won = others.length < winners.length ? [] : others.flatMap(({ accepted }) => accepted);
  const wonFrom = won.map(endLine).reduce(least, Number.POSITIVE_INFINITY);
  const isLost = !isContested && won.length > 0 && wonFrom < firstFault;
  const holders = body.requests.filter((each) => mayHaveClaimed(each) && !isReplay(each));
  const begins = holders.map(({ line }) => line);
  const ended = holders
    .filter(({ end }) => end !== undefined)
    .sort((one, other) => endLine(one) - endLine(other));
  const ends = ended.map(endLine);
  // Until when the claims of the first so many that ended may be held.
  const heldUntil = [Number.NEGATIVE_INFINITY];
  for (const each of ended) {
    heldUntil.push(Math.max(heldUntil.at(-1)!, leaseEnd(each, firstFault)));
  }
  const isFounded = (request: KeyRequest) => {
    if (isLost) return false;
    const over = countBelow(ends, request.line);
    return countBelow(begins, endLine(request)) > over || request.at <= heldUntil[over]!;
  };
  const why = 'no request with this body can have been at work';
  return inUse
    .filter((request) => !isFounded(request))
    .map((request) => foundIn(key, 'in-use-unfounded', { requests: [request], why }));
}

/** Until when the claim of a request that ended may go on to be held, in the history's time. */
function leaseEnd(request: KeyRequest, firstFault: number): number {
  const { end, outcome } = request;
  if (outcome === 'accepted' && !mayNotBeKept(request, firstFault)) return Number.NEGATIVE_INFINITY;
  return end!.at + leaseMs + (end!.what === 'unanswered' ? lateMs : 0);
}

/** One body wins a key; another one may have been accepted only if a webhook says that it lost. */
function checkOneBody(key: AskedKey, winners: readonly Body[]): HistoryFinding[] {
  if (winners.length < 2) return [];
  const requests = winners.map(({ accepted }) => accepted[0]!);
  const why = `${requests.length} bodies were accepted, and no webhook says which of them lost`;
  return [foundIn(key, 'two-bodies-accepted', { requests, why })];
}

/**
 * What was refused as another body, or refused after it had been accepted; `claimed` is in the
 * order of their first claimers.
 */
function checkRefused(
  { key, firstFault, isContested }: Judging,
  body: Body,
  claimed: readonly Body[],
): HistoryFinding[] {
  const other = claimed[0] === body ? claimed[1] : claimed[0];
  const firstOther = other?.claimer!.line ?? Number.POSITIVE_INFINITY;
  const firstEnd = body.accepted.map(endLine).reduce(least, Number.POSITIVE_INFINITY);
  return body.requests.flatMap((request) => {
    const isReused = request.outcome === 'reused';
    const find = (check: HistoryCheck, why: string) => [
      foundIn(key, check, { requests: [request], why }),
    ];
    if (isReused && firstOther > endLine(request)) {
      return find('reused-unfounded', 'no other body can have used the key by then');
    }
    if (isContested || body.accepted.length === 0) return [];
    if (isReused && mayHoldClaim(claimed, body, { request, firstFault })) return [];
    if ((isReused || refusesTheSame(request)) && firstEnd < request.line) {
      return find('accepted-then-refused', 'the same request had been accepted before');
    }
    // A fault may have forgotten the claim of another user, who is unknown to this day.
    return isReused && firstFault > firstEnd
      ? find('refused-took-effect', 'the same request was accepted as well')
      : [];
  });
}

/**
 * Whether another body may have the claim while a request is judged: made after the claims were
 * lost and before the first body was in the ledger, and never produced. Nobody lost the key by it,
 * so no webhook informs of it, and the claim keeps its fingerprint beyond the lease.
 */
function mayHoldClaim(
  claimed: readonly Body[],
  body: Body,
  { request, firstFault }: { request: KeyRequest; firstFault: number },
): boolean {
  if (firstFault > endLine(request)) return false;
  const others = claimed.filter((each) => each !== body).flatMap(({ requests }) => requests);
  return others.some((each) => each.outcome === 'unknown' && each.line < endLine(request));
}

/** Refusals that follow from what is asked for, and not from who asks, or how often. */
function refusesTheSame({ end }: Sent): boolean {
  return end?.what === 'answered' && [400, 404, 413].includes(end.status);
}

function bodyOf({ end }: Sent): string | undefined {
  return end?.what === 'answered' ? end.body : undefined;
}

const least = (one: number, other: number) => Math.min(one, other);
