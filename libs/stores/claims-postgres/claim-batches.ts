import {
  ClaimsUnavailableError,
  unavailable,
  type BucketEpoch,
  type ClaimOutcome,
  type ClaimOwner,
  type ClaimRequest,
  type ClaimTimes,
  type Cold,
  type FirstClaim,
  type OwnerToken,
} from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf } from '@triplock/payments';
import { databaseErrorKind, loadSql } from '@triplock/postgres';
import { inBatches, inSpan, withDeadline, type SpanSpec } from '@triplock/runtime';
import type { PostgresConnection } from './postgres-connection.ts';

const claimSql = loadSql(import.meta.url, 'claim.sql');
const claimTogetherSql = loadSql(import.meta.url, 'claim-together.sql');

/** A request, and the token that its claim would have. */
export type Asked = { request: ClaimRequest; token: OwnerToken };

/** What a claim came to, and for how long a completed one is known, milliseconds. */
export type TimedOutcome =
  | Exclude<ClaimOutcome, { outcome: 'completed' }>
  | ({ outcome: 'completed'; lifeLeftMs: number } & FirstClaim);

/** What every claim is made with; the limits are those of a partner in a bucket. */
export type ClaimSettings = Omit<ClaimTimes, 'answerTimeoutMs'> & {
  namespace: string;
  limits: { claims: number; shown: number };
};

/**
 * Claims by one statement what comes by one turn of the event loop, or while those before it are
 * claimed: a commit, a trip and a plan's start cost more than all that is done for a claim. What
 * that statement does not decide, claim.sql decides alone.
 */
export function claimInBatches(
  postgres: PostgresConnection,
  { namespace, leaseMs, lifeMs, shownMs, limits }: ClaimSettings,
): (asked: Asked) => Promise<TimedOutcome> {
  const lasting = [leaseMs, lifeMs, shownMs];
  return together<Asked, TimedOutcome>(postgres, {
    name: 'claim',
    async all(asked) {
      const claims = asked.map((each) => [...writtenOf(each), checkedIn(each)]);
      const columns = claims[0]!.map((_, column) => claims.map((claim) => claim[column]));
      const parameters = [namespace, ...columns, ...lasting, limits.claims, limits.shown];
      const rows = await postgres.rows<NthRow>(claimTogetherSql, parameters);
      const decided = new Map(rows.map((row) => [row.nth, row]));
      return asked.map(({ token }, at) => {
        const row = decided.get(at + 1);
        return row && claimOutcome(row, token);
      });
    },
    async alone(asked) {
      const limited = [checkedIn(asked), limits.claims, limits.shown];
      const parameters = [namespace, ...writtenOf(asked), ...lasting, ...limited];
      return claimOutcome(await postgres.row<ClaimRow>(claimSql, parameters), asked.token);
    },
  });
}

/** What a claim is made of, in the order of both contracts. */
function writtenOf({ request, token }: Asked): unknown[] {
  const { txnId, fingerprint, partnerId, kind, acceptedAt, responseVersion } = request;
  const { recordKey, shown } = request;
  return [
    ...[txnId, bucketOf(txnId, bucketCount), token, fingerprint, partnerId, kind],
    ...[acceptedAt, responseVersion, recordKey, shown],
  ];
}

function checkedIn({ request }: Asked): BucketEpoch | null {
  return request.ledgerCheckedIn ?? null;
}

/** Completes by one statement what comes together; the life of a record in milliseconds. */
export function completeInBatches(
  postgres: PostgresConnection,
  { namespace, lifeMs, statement }: { namespace: string; lifeMs: number; statement: string },
): (owner: ClaimOwner) => Promise<'completed' | 'lost'> {
  const all = async (owners: readonly ClaimOwner[]) => {
    const columns = [owners.map(({ txnId }) => txnId), owners.map(({ token }) => token)];
    const parameters = [namespace, ...columns, lifeMs];
    const rows = await postgres.rows<{ txn_id: string; owner: string }>(statement, parameters);
    const completed = new Set(rows.map(({ txn_id: txnId, owner }) => `${txnId} ${owner}`));
    return owners.map(({ txnId, token }) =>
      completed.has(`${txnId} ${token}`) ? 'completed' : 'lost',
    );
  };
  const alone = async (owner: ClaimOwner) => (await all([owner]))[0]!;
  return together<ClaimOwner, 'completed' | 'lost'>(postgres, { name: 'complete', all, alone });
}

// Two batches at once would wait for each other: most buckets have a claim in either. So many take
// some milliseconds of the server. What waits longer than a store may take to answer is given up.
const batchLimits = { itemsMax: 100, waitingMax: 10_000 };

type Step<Item, Result> = {
  name: string;
  /** By one statement; nothing for each that it does not decide. */
  all(items: readonly Item[]): Promise<(Result | undefined)[]>;
  alone(item: Item): Promise<Result>;
};

/** Nothing of it was sent, and nothing will be: the claim is certainly not made by it. */
export class NotSentError extends ClaimsUnavailableError {
  override name = 'NotSentError';
}

type Waiting<Item> = { item: Item; until: number; stage: 'waits' | 'sent' | 'given up' };

/** Whether it is sent now: its time is not over, and nobody was told that it never will be. */
function send(waiting: Waiting<unknown>): boolean {
  if (waiting.stage === 'waits' && performance.now() < waiting.until) waiting.stage = 'sent';
  return waiting.stage === 'sent';
}

/**
 * Each call has its own deadline, from when it came; one that was given up before its turn is sent
 * no more, and says so. Where the server refuses a batch nothing of it was done, and each is asked
 * for alone: so what one finds broken spoils no other. Of a batch without an answer every call is
 * unknown.
 */
function together<Item, Result>(
  { answerTimeoutMs: ms }: PostgresConnection,
  { name, all, alone }: Step<Item, Result>,
): (item: Item) => Promise<Result> {
  const gather = inBatches<Waiting<Item>, Result | undefined>(async (waiting) => {
    const items = waiting.filter(send).map(({ item }) => item);
    const results = new Map<Item, Result | undefined>();
    if (items.length === 1) results.set(items[0]!, await alone(items[0]!));
    if (items.length > 1) {
      const found = await all(items).catch((error: unknown) => {
        if (wasRolledBack(error)) return [];
        throw error;
      });
      for (const [at, item] of items.entries()) results.set(item, found[at]);
    }
    return waiting.map(({ item }) => results.get(item));
  }, batchLimits);
  const ask = async (waiting: Waiting<Item>) => {
    const result = await gather(waiting);
    if (result !== undefined) return result;
    // The server did nothing of it, or was never asked.
    if (waiting.stage === 'sent') waiting.stage = 'waits';
    if (send(waiting)) return alone(waiting.item);
    throw new NotSentError('given up before it was sent');
  };
  return (item) => {
    const waiting: Waiting<Item> = { item, until: performance.now() + ms, stage: 'waits' };
    const asked = inSpan(spanOf(name), () => ask(waiting));
    return withDeadline(asked, { ms, what: 'PostgreSQL' }).catch((error: unknown) => {
      if (waiting.stage !== 'sent') throw notSent(waiting, error);
      throw error instanceof ClaimsUnavailableError ? error : unavailable(error);
    });
  };
}

function notSent(waiting: Waiting<unknown>, error: unknown): NotSentError {
  waiting.stage = 'given up';
  if (error instanceof NotSentError) return error;
  return new NotSentError(unavailable(error).message, { cause: error });
}

/** A span of each payment's own: the statement is nobody's of those who share it. */
function spanOf(name: string): SpanSpec {
  const attributes = { 'db.system.name': 'postgresql', 'db.query.summary': name };
  return { name, kind: 'client', attributes };
}

/** The server says that nothing was done: the input of one is wrong, or it ended a deadlock. */
function wasRolledBack(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return false;
  const deadlocked = (cause as { code?: unknown }).code === '40P01';
  return deadlocked || databaseErrorKind(cause) === 'data';
}

/** What says of a bucket that it is cold, in the rows of every statement that may. */
export type MarkerRow = { epoch: string | null; barrier: string | null };

/** A row of claim.sql, as its contract names it. */
type ClaimRow = MarkerRow & {
  outcome: TimedOutcome['outcome'];
  accepted_at: Date;
  response_version: number;
  lease_left_ms: number;
  life_left_ms: number;
  retry_after_ms: number;
};

/** A row of claim-together.sql. */
type NthRow = ClaimRow & { nth: number };

/** What the row of a claim says. */
function claimOutcome(row: ClaimRow, token: OwnerToken): TimedOutcome {
  const { outcome, accepted_at: acceptedAt, response_version: responseVersion } = row;
  switch (outcome) {
    case 'claimed':
      return { outcome, token, acceptedAt, responseVersion };
    case 'completed':
      return { outcome, acceptedAt, responseVersion, lifeLeftMs: row.life_left_ms };
    case 'reused':
      return { outcome };
    case 'in-flight':
      return { outcome, leaseLeftMs: Math.ceil(row.lease_left_ms) };
    case 'over-limit':
      return { outcome, retryAfterMs: Math.ceil(row.retry_after_ms) };
    case 'cold':
      return cold(row);
    default:
      return outcome satisfies never;
  }
}

export function cold({ epoch, barrier }: MarkerRow): Cold {
  return {
    outcome: 'cold',
    ...(epoch !== null && { epoch: epoch as BucketEpoch }),
    ...(barrier !== null && { barrier }),
  };
}
