import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestRedis, createTestRelay, eventually } from '@triplock/testing';
import { openTopicOffsets, runConsumer } from '@triplock/transport';
import { gatewaySettings, startGateway } from './test/gateway-process.ts';

const body = { amount: 1_250, currency: 'EUR' };
const key = (name: string) => ({ 'idempotency-key': name });

type Readiness = { ready: boolean; degraded?: boolean; checks: Record<string, string> };

/** A gateway process that reaches PostgreSQL by a way that the test can close. */
async function aGateway(t: TestContext) {
  const [given, redis] = await Promise.all([gatewaySettings(t), createTestRedis(t)]);
  const postgres = await createTestRelay(t, given.settings.DATABASE_URL);
  const settings = { ...given.settings, REDIS_URL: redis.url, DATABASE_URL: postgres.url };
  const gateway = startGateway(t, { ...given, settings });
  await gateway.ready();
  const readiness = async () => {
    const answer = await gateway.admin('/readyz');
    return { status: answer.status, ...((await answer.json()) as Readiness) };
  };
  /** Has the workers' group pass all that is in the topic. */
  const pass = async () => {
    const { KAFKA_BROKERS, ACCEPTED_TOPIC: topic, LEDGER_GROUP: groupId } = settings;
    const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
    const kafka = { brokers: KAFKA_BROKERS.split(','), topic, groupId, clientId: 'test', logger };
    const offsets = openTopicOffsets(kafka);
    const consumer = runConsumer({ ...kafka, handle: async () => {} });
    await eventually(async () => {
      const [end, committed] = await Promise.all([offsets.end(), offsets.committed()]);
      return [...end].every(([partition, offset]) => (committed.get(partition) ?? 0n) >= offset);
    }).finally(() => Promise.all([consumer.close(), offsets.close()]));
  };
  return { gateway, postgres, redis, readiness, pass };
}

test('a warm gateway goes on accepting while PostgreSQL is away, and says so', async (t) => {
  const { gateway, postgres, readiness } = await aGateway(t);
  const before = await gateway.post(body, key('before'));
  assert.equal(before.status, 202);
  await postgres.cut();

  const { status, ready, degraded, checks } = await readiness();
  assert.deepEqual([status, ready, degraded], [200, true, true]);
  assert.match(checks['postgres']!, /^away: /);

  assert.equal((await gateway.post(body, key('during'))).status, 202);
  const replay = await gateway.post(body, key('before'));
  assert.equal(replay.headers.get('idempotency-replayed'), 'true');
  assert.equal(await replay.text(), await before.text());
  assert.equal((await gateway.post({ ...body, amount: 1 }, key('before'))).status, 422);

  // What only PostgreSQL knows is neither yes nor no.
  const unknown = { authorization: 'Bearer never-seen-before' };
  for (const refused of [
    await gateway.post(body, { ...key('unknown'), ...unknown }),
    await gateway.get(before.headers.get('location')!),
    await gateway.get('/v1/webhook-endpoint'),
    await gateway.get('/v1/webhook-deliveries'),
  ]) {
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1'], refused.url);
  }

  await postgres.restore();
  await eventually(async () => (await readiness()).checks['postgres'] === 'ok');
  assert.equal('degraded' in (await readiness()), false);
  assert.equal((await gateway.get(before.headers.get('location')!)).status, 200);
});

test('a key expires on time while PostgreSQL is away, and its last use is written at the end', async (t) => {
  const given = await gatewaySettings(t);
  const postgres = await createTestRelay(t, given.settings.DATABASE_URL);
  const settings = { ...given.settings, DATABASE_URL: postgres.url };
  const owner = given.database.open();
  const gateway = startGateway(t, { ...given, settings });
  await gateway.ready();
  // It has not heard of the key yet.
  await owner.query(`UPDATE partners.api_keys SET expires_at = now() + interval '15 s'
    WHERE partner_id = 'acme'`);
  assert.equal((await gateway.get('/v1/keys/payment/x')).status, 200);
  await postgres.cut();
  assert.equal((await gateway.post(body, key('during'))).status, 202);
  const expiry = { withinMs: 60_000, what: 'that the key expires' };
  const refused = await eventually(async () => {
    const answer = await gateway.post(body, key('during'));
    return answer.status === 202 ? undefined : answer;
  }, expiry);
  assert.equal(refused.status, 401);
  assert.match(refused.headers.get('www-authenticate')!, /^Bearer error="invalid_token"/);
  assert.match(((await refused.json()) as { detail: string }).detail, /expired at 20\d\d-/);
  await postgres.restore();
  gateway.terminate();
  assert.equal((await gateway.ended).exitCode, 0);
  const used = await owner.query<{ partner: string; used: boolean }>(
    `SELECT partner_id AS partner, last_used_at > now() - interval '2 minutes' AS used
     FROM partners.api_keys ORDER BY 1`,
  );
  assert.deepEqual(used, [
    { partner: 'acme', used: true },
    { partner: 'globex', used: null },
  ]);
});

test('a gateway tells operators whether its claims are warm, were lost, or cannot be asked', async (t) => {
  const { gateway, redis, readiness } = await aGateway(t);
  const tells = async () => {
    const answer = await gateway.admin('/claims');
    return [answer.status, (await answer.json()) as object];
  };
  const gauge = async () => {
    const metrics = await (await gateway.admin('/metrics')).text();
    return /^triplock_gateway_cold_ratio\{[^}]*\} (\S+)$/m.exec(metrics)?.[1];
  };
  assert.equal((await gateway.post(body, key('before'))).status, 202);
  assert.deepEqual(await tells(), [200, { state: 'warm' }]);
  assert.equal(await gauge(), '0');
  await redis.command('FLUSHALL');
  const [answered, told] = await tells();
  assert.equal(answered, 200);
  assert.match(JSON.stringify(told), /^{"state":"cold","left":"waits .+"}$/);
  const { status, ready, checks } = await readiness();
  assert.deepEqual([status, ready], [200, true]);
  assert.match(checks['redis']!, /^cold: waits /);
  // Whoever asks has it looked at, and what is in the topic is read by nobody.
  await eventually(async () => (await gauge()) === '1');
  await redis.kill();
  assert.deepEqual((await tells())[0], 503);
});

test('a gateway whose claims were lost is warm again by itself, and then needs no ledger for new keys', async (t) => {
  const { gateway, postgres, redis, readiness, pass } = await aGateway(t);
  assert.equal((await gateway.post(body, key('before'))).status, 202);
  await pass();
  await redis.command('FLUSHALL');
  const claims = async () => {
    const answer = await gateway.admin('/claims');
    return ((await answer.json()) as { state?: string }).state;
  };
  assert.equal(await claims(), 'cold');
  const readBack = { withinMs: 120_000, what: 'that the claims are read back' };
  await eventually(async () => (await claims()) === 'warm', readBack);
  await postgres.cut();
  assert.equal((await gateway.post(body, key('during'))).status, 202);
  const { status, ready } = await readiness();
  assert.deepEqual([status, ready], [200, true]);
});

test('PostgreSQL that stands still delays nobody by more than a moment', async (t) => {
  const { gateway, postgres, readiness } = await aGateway(t);
  assert.equal((await gateway.post(body, key('before'))).status, 202);
  postgres.freeze();
  const begin = performance.now();
  const answers = await Promise.all([
    ...Array.from({ length: 50 }, (_, n) => gateway.post(body, key(`during-${n}`))),
    gateway.get('/v1/webhook-endpoint'),
  ]);
  assert.ok(performance.now() - begin < 3_000);
  const last = answers.pop()!;
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
  assert.equal(last.status, 503);
  assert.deepEqual([(await readiness()).status, (await readiness()).degraded], [200, true]);
  await postgres.restore();
  await eventually(async () => (await readiness()).checks['postgres'] === 'ok');
});

test('a gateway that knows no partner is not ready without PostgreSQL', async (t) => {
  const { postgres, readiness } = await aGateway(t);
  await postgres.cut();
  const { status, ready, checks } = await readiness();
  assert.deepEqual([status, ready], [503, false]);
  assert.match(checks['postgres']!, /ECONNREFUSED/);
});

test('a gateway whose claims were lost is not ready without the ledger that answers for them', async (t) => {
  const { gateway, postgres, redis, readiness } = await aGateway(t);
  assert.equal((await gateway.post(body, key('before'))).status, 202);
  await postgres.cut();
  await redis.command('FLUSHALL');
  const { status, ready } = await readiness();
  assert.deepEqual([status, ready], [503, false]);
  const refused = await gateway.post(body, key('during'));
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
});

test('after a loss of the claims a ledger that stands still leaves nobody waiting, and is asked again when it is back', async (t) => {
  const { gateway, postgres, redis, pass } = await aGateway(t);
  assert.equal((await gateway.post(body, key('before'))).status, 202);
  await pass();
  await redis.command('FLUSHALL');
  await eventually(async () => (await gateway.post(body, key('after the loss'))).status === 202);

  postgres.freeze();
  const ask = (n: number) => gateway.post(body, key(`during-${n}`));
  for (const turn of [0, 1]) {
    const begin = performance.now();
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => ask(turn * 50 + n)));
    assert.ok(performance.now() - begin < 3_000);
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([503]));
  }
  // What was claimed since the loss needs no ledger.
  const replay = await gateway.post(body, key('after the loss'));
  assert.equal(replay.headers.get('idempotency-replayed'), 'true');

  await postgres.restore();
  await eventually(async () => (await ask(0)).status === 202);
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => ask(n)));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
});
