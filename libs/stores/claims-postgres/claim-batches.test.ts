import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import type { ClaimRequest, Claims, OwnerToken } from '@triplock/claims';
import {
  aClaim,
  bucketOfClaim,
  expectOutcome,
  idInBucketOf,
  lasting,
  warmUp,
} from '@triplock/claims/test';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestRelay, eventually, testNamespace } from '@triplock/testing';
import { openPostgresClaims } from './postgres-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const database = await createTestDatabase({ after });
const owner = database.open();

const blocked = `SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'`;

/** Two gateways on one store. */
async function openTwo(t: TestContext) {
  const namespace = testNamespace('claims');
  const url = database.url('triplock_claims');
  const named = { namespace, applicationName: namespace, logger };
  const open = () => openPostgresClaims({ url, ...named, ...lasting });
  const [claims, other] = [await open(), await open()];
  let closing: Promise<unknown> | undefined;
  const close = () => (closing ??= Promise.all([claims.close(), other.close()]));
  t.after(close);
  return { claims, other, namespace, close };
}

/** Requests of one partner whose buckets are warm and counted in already. */
async function someKnown(claims: Claims, count: number): Promise<ClaimRequest[]> {
  const requests = Array.from({ length: count }, () => aClaim());
  for (const request of requests) {
    await warmUp(claims, request);
    await claims.claim(aClaim({ txnId: idInBucketOf(request) }));
  }
  return requests;
}

describe('claims in postgres that come together', () => {
  it('claims that come together are one commit, and so are their completions', async (t) => {
    const { claims, namespace } = await openTwo(t);
    const requests = await someKnown(claims, 20);
    const commits = async () => {
      const ids = requests.map(({ txnId }) => txnId);
      const written = `SELECT xmin::text, state FROM claims.claims
        WHERE namespace = $1 AND txn_id = ANY($2) GROUP BY 1, 2`;
      return (await owner.query<{ state: string }>(written, [namespace, ids])).map(
        ({ state }) => state,
      );
    };
    const made = await Promise.all(requests.map(claims.claim));
    assert.deepEqual(await commits(), ['in-flight']);
    const owners = made.map((each, at) => ({
      ...requests[at]!,
      ...expectOutcome(each, 'claimed'),
    }));
    const late = { ...owners[3]!, token: randomUUID() as OwnerToken };
    const completed = await Promise.all([...owners, late].map(claims.complete));
    assert.deepEqual(completed, [...Array<string>(20).fill('completed'), 'lost']);
    assert.deepEqual(await commits(), ['completed']);
  });

  it('what one of those that come together finds broken spoils no other', async (t) => {
    const { claims } = await openTwo(t);
    const requests = await someKnown(claims, 9);
    // No text of PostgreSQL holds this character.
    requests[4] = { ...requests[4]!, shown: 'a\u0000b' };
    const made = await Promise.allSettled(requests.map(claims.claim));
    const failed = made.flatMap(({ status }, at) => (status === 'rejected' ? [at] : []));
    assert.deepEqual(failed, [4]);
    const owners = requests.map(({ txnId }, at) => {
      const each = made[at]!;
      const token = each.status === 'fulfilled' && expectOutcome(each.value, 'claimed').token;
      return { txnId, token: (token || 'no token at all') as OwnerToken };
    });
    const completed = await Promise.allSettled(owners.map(claims.complete));
    assert.deepEqual(
      completed.map((each) => (each.status === 'fulfilled' ? each.value : 'failed')),
      requests.map((_, at) => (at === 4 ? 'failed' : 'completed')),
    );
  });

  it('batches of two gateways in opposite order make each claim once, and wait in no circle', async (t) => {
    const { claims, other, namespace, close } = await openTwo(t);
    const deadlocks = async () => {
      const counted = `SELECT deadlocks::int AS count FROM pg_stat_database
        WHERE datname = current_database()`;
      return (await owner.query<{ count: number }>(counted))[0]!.count;
    };
    const before = await deadlocks();
    const requests = await someKnown(claims, 20);
    const { asked } = await owner.transaction(async (tx) => {
      // Either gets as far as this one, whatever its order: what it locked by then, it keeps.
      const lock = `SELECT FROM claims.claims_held WHERE namespace = $1 AND bucket = $2 FOR UPDATE`;
      await tx.query(lock, [namespace, bucketOfClaim(requests[10]!)]);
      const both = [
        Promise.all(requests.map(claims.claim)),
        Promise.all(requests.toReversed().map(other.claim)),
      ];
      await eventually(async () => (await owner.query(blocked)).length === 2);
      return { asked: Promise.all(both) };
    });
    const [made, madeByOther] = await asked;
    for (const [at, each] of made!.entries()) {
      const outcomes = [each.outcome, madeByOther!.at(-1 - at)!.outcome];
      assert.deepEqual(outcomes.sort(), ['claimed', 'in-flight']);
    }
    // A session's counts are sure to be there when it has ended.
    await close();
    const left = `SELECT FROM pg_stat_activity WHERE application_name = $1`;
    await eventually(async () => (await owner.query(left, [namespace])).length === 0);
    assert.equal(await deadlocks(), before);
  });

  it('what was given up before it was sent was not made, so nobody looks for it to release it', async (t) => {
    const relay = await createTestRelay(t, database.url('triplock_claims'));
    const named = { namespace: testNamespace('claims'), applicationName: 'test', logger };
    const hurried = { ...lasting, answerTimeoutMs: 500 };
    const claims = await openPostgresClaims({ url: relay.url, ...named, ...hurried });
    t.after(() => claims.close());
    const told = t.mock.method(logger, 'debug', () => undefined);
    relay.freeze();
    // More than one statement makes; the others are over before it is.
    const asked = Array.from({ length: 130 }, () => claims.claim(aClaim()));
    const errors = (await Promise.allSettled(asked)).map((each) => {
      return each.status === 'rejected' && (each.reason as Error).name;
    });
    assert.deepEqual(errors.slice(0, 100), Array<string>(100).fill('ClaimsUnavailableError'));
    assert.deepEqual(errors.slice(100), Array<string>(30).fill('NotSentError'));
    const [facts] = await eventually(async () => told.mock.calls[0]?.arguments);
    assert.equal((facts as { waiting: number }).waiting, 100);
    await relay.restore();
  });
});
