import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import { loadSql, PostgresDurabilityError } from '@triplock/postgres';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestRelay, eventually, testNamespace } from '@triplock/testing';
import type { ClaimOutcome } from '@triplock/claims';
import { describeClaims } from '@triplock/claims/conformance';
import { aClaim, aFingerprint, bucketOfClaim, expectOutcome, warmUp } from '@triplock/claims/test';
import { openPostgresClaims, openPostgresWalk } from './postgres-claims.ts';
import { ageHeldRow, ageRow, bytesOfRow, forgetRows } from './test/claim-rows.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const database = await createTestDatabase({ after });
const owner = database.open();
const role = database.open('triplock_claims');

async function openClaims(t: TestContext) {
  const namespace = testNamespace('claims');
  const url = database.url('triplock_claims');
  const claims = await openPostgresClaims({ url, namespace, applicationName: 'test', logger });
  t.after(() => claims.close());
  return { claims, namespace };
}

/** A claim that expired so long ago, claimed in a warm bucket. */
async function anExpiredClaim(t: TestContext, ago: string) {
  const { claims, namespace } = await openClaims(t);
  const request = aClaim();
  await warmUp(claims, request);
  await claims.claim(request);
  await owner.query(
    `UPDATE claims.claims
     SET expires_at = now() - $2::interval, claimed_at = now() - $2::interval - interval '1 day'
     WHERE namespace = $1`,
    [namespace, ago],
  );
  return { claims, namespace, request };
}

// Of its own: the suite leaves claims that a reaper would take out.
const suite = await createTestDatabase({ after });
const suiteOwner = suite.open();

describeClaims('postgres', async (test, times) => {
  const namespace = testNamespace('claims');
  const url = suite.url('triplock_claims');
  const relay = await createTestRelay(test, url);
  // As the auditor, over the same way.
  const byAuditor = new URL(suite.url('triplock_auditor'));
  byAuditor.host = new URL(relay.url).host;
  const open = async (way: string) => {
    const named = { namespace, applicationName: 'test', logger };
    const claims = await openPostgresClaims({ url: way, ...named, ...times });
    test.after(() => claims.close());
    return claims;
  };
  return {
    claims: await open(relay.url),
    another: () => open(url),
    async openWalk() {
      const named = { namespace, applicationName: 'test', logger };
      const walk = openPostgresWalk({ url: byAuditor.href, ...named, ...times });
      test.after(() => walk.close());
      return walk;
    },
    forget: () => forgetRows(suiteOwner, namespace),
    age: (txnId, ms) => ageRow(suiteOwner, { namespace, txnId, ms }),
    ageHeld: (claim, ms) => ageHeldRow(suiteOwner, { namespace, claim, ms }),
    bytes: (txnId) => bytesOfRow(suiteOwner, { namespace, txnId }),
    relay,
  };
});

describe('claims in postgres', () => {
  it('a role whose commits do not wait for the disk is refused at the start', async () => {
    const url = new URL(database.url('triplock_claims'));
    url.searchParams.set('options', '-c synchronous_commit=off');
    const options = { url: url.href, namespace: 'any', applicationName: 'test', logger };
    await assert.rejects(openPostgresClaims(options), PostgresDurabilityError);
  });

  it('a claim that is sent twice over is still its own', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    const send = (token: string) =>
      role.query<{ outcome: string }>(loadSql(import.meta.url, 'claim.sql'), [
        ...[namespace, request.txnId, bucketOfClaim(request), token, request.fingerprint],
        ...[request.partnerId, request.kind, request.acceptedAt, request.responseVersion],
        ...[request.recordKey, request.shown, 60_000, 60_000, 60_000, null, 1, 100],
      ]);
    // A partner's first claim in a bucket only makes the row that counts.
    assert.deepEqual(await send(randomUUID()), []);
    const token = randomUUID();
    assert.equal((await send(token))[0]!.outcome, 'claimed');
    assert.equal((await send(token))[0]!.outcome, 'claimed');
    assert.equal((await send(randomUUID()))[0]!.outcome, 'in-flight');
  });

  it('two systems in one database do not meet', async (t) => {
    const [one, other] = [await openClaims(t), await openClaims(t)];
    const request = aClaim();
    await warmUp(one.claims, request);
    const claimed = { ...request, ...expectOutcome(await one.claims.claim(request), 'claimed') };
    expectOutcome(await other.claims.claim(request), 'cold');
    await warmUp(other.claims, request);
    assert.deepEqual(await other.claims.read(request.txnId), { outcome: 'unknown' });
    assert.equal(await other.claims.complete(claimed), 'lost');
    assert.equal(await other.claims.release(claimed), 'lost');
    expectOutcome(await one.claims.claim(request), 'in-flight');
    await one.claims.complete(claimed);
    const named = { namespace: other.namespace, applicationName: 'test', logger };
    const walk = openPostgresWalk({ url: database.url('triplock_auditor'), ...named });
    t.after(() => walk.close());
    assert.deepEqual(await walk.walk({ limit: 9 }), { claims: [] });
    expectOutcome(await other.claims.claim({ ...request, shown: '{"of":"other"}' }), 'claimed');
    await other.claims.markCold(bucketOfClaim(request));
    expectOutcome(await one.claims.claim(request), 'completed');
    const shownUntil = () =>
      owner.query(`SELECT expires_at FROM claims.claims_shown WHERE namespace = $1`, [
        one.namespace,
      ]);
    // So little of its time is left that it could be renewed.
    for (const { namespace } of [one, other]) {
      await ageRow(owner, { namespace, txnId: request.txnId, ms: 40_000 });
    }
    const before = await shownUntil();
    await other.claims.renewShown([request]);
    assert.deepEqual(await shownUntil(), before);
  });

  it('another history of the server is noticed: old claims count, silence does not', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const [kept, lost] = [aClaim(), aClaim()];
    for (const request of [kept, lost]) await warmUp(claims, request);
    await claims.claim(kept);
    // What a promoted standby finds: the marker names the timeline that has ended.
    await owner.query(`UPDATE claims.warm_markers SET history = 'ended' WHERE namespace = $1`, [
      namespace,
    ]);
    expectOutcome(await claims.claim(kept), 'in-flight');
    expectOutcome(await claims.claim({ ...kept, fingerprint: aFingerprint() }), 'reused');
    assert.deepEqual(await claims.claim(lost), { outcome: 'cold' });
    const { epoch } = await claims.noteLoss(bucketOfClaim(lost));
    assert.deepEqual(await claims.claim(lost), { outcome: 'cold', epoch });
  });

  it('the history is that of the cluster and its timeline', async () => {
    const [row] = await role.query<{ history: string }>('SELECT current_history() AS history');
    assert.match(row!.history, /^\d{15,20}\/[0-9A-F]{8}$/);
  });

  it('claims that expired an hour ago leave in small batches, and no other ones', async (t) => {
    const expired = [];
    for (let each = 0; each < 3; each += 1) expired.push(await anExpiredClaim(t, '61 minutes'));
    const young = await anExpiredClaim(t, '59 minutes');
    // Claimed long ago, and kept by an answer that came late.
    const late = await openClaims(t);
    const kept = aClaim();
    await warmUp(late.claims, kept);
    await late.claims.claim(kept);
    await owner.query(
      `UPDATE claims.claims SET claimed_at = now() - interval '2 days' WHERE namespace = $1`,
      [late.namespace],
    );
    const { claims } = young;
    const reaped = [];
    for (let pass = 0; pass < 3; pass += 1) reaped.push(await claims.reap({ rowsMax: 2 }));
    assert.deepEqual(reaped, [2, 1, 0]);
    const left = await owner.query(`SELECT FROM claims.claims WHERE namespace = ANY($1)`, [
      [...expired, young, late].map(({ namespace }) => namespace),
    ]);
    assert.equal(left.length, 2);
    expectOutcome(await late.claims.claim(kept), 'in-flight');
    expectOutcome(await claims.claim(young.request), 'claimed');
  });

  it('the role of the claims forgets nothing by any other way', async () => {
    for (const statement of [
      'DELETE FROM claims',
      'DELETE FROM warm_markers',
      'TRUNCATE claims, warm_markers',
      'SELECT FROM ledger.transactions',
    ]) {
      await assert.rejects(role.query(statement), /permission denied/, statement);
    }
  });

  /** Runs a step that waits for a row which it did not see, and then meets it. */
  async function meeting<Outcome>(
    insert: string,
    values: readonly unknown[],
    step: () => Promise<Outcome>,
  ): Promise<Outcome> {
    let underWay: Promise<Outcome> | undefined;
    await owner.transaction(async (tx) => {
      await tx.query(insert, [...values]);
      underWay = step();
      await eventually(async () => {
        const waiting = await owner.query(
          `SELECT FROM pg_stat_activity
           WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        return waiting.length > 0;
      });
    });
    return underWay!;
  }

  for (const [state, leaseLeft, expected] of [
    ['released', '1 hour', 'claimed'],
    ['in-flight', '1 hour', 'in-flight'],
    ['completed', '-1 hour', 'completed'],
  ] as const) {
    it(`a claim that commits ${state} between look and write is decided by what it is`, async (t) => {
      const { claims, namespace } = await openClaims(t);
      for (const isReuse of [true, false]) {
        const request = aClaim();
        await warmUp(claims, request);
        const asked = isReuse ? { ...request, fingerprint: aFingerprint() } : request;
        const outcome = await meeting<ClaimOutcome>(
          `INSERT INTO claims.claims (namespace, txn_id, fingerprint, state, owner, lease_until,
             expires_at, partner, kind, accepted_at, response_version)
           VALUES ($1, $2, decode($3, 'hex'), $4, gen_random_uuid(), now() + $5::interval,
             now() + interval '1 day', 'acme', 'payment', now(), 1)`,
          [namespace, request.txnId, request.fingerprint, state, leaseLeft],
          () => claims.claim(asked),
        );
        expectOutcome(outcome, isReuse ? 'reused' : expected);
      }
    });
  }

  it('an epoch that commits between look and write is the one that both get', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const epoch = randomUUID();
    const noted = await meeting(
      `INSERT INTO claims.warm_markers (namespace, bucket, epoch, history, since)
       VALUES ($1, 7, $2, claims.current_history(), now())`,
      [namespace, epoch],
      () => claims.noteLoss(7),
    );
    assert.equal(noted.epoch, epoch);
  });

  it('a history that has ended gives the next one no age', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    await owner.query(
      `UPDATE claims.warm_markers SET history = 'ended', since = since - interval '2 days'
       WHERE namespace = $1`,
      [namespace],
    );
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: false });
    expectOutcome(await claims.claim(request), 'cold');
  });

  it('replays and waits write nothing', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    const version = () =>
      owner.query<{ xmin: string }>(`SELECT xmin::text FROM claims.claims WHERE namespace = $1`, [
        namespace,
      ]);
    const before = await version();
    expectOutcome(await claims.claim(request), 'in-flight');
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    assert.deepEqual(await version(), before);
  });
});
