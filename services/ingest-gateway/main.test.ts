import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { createTestRedis, eventually, freePort, longestFields } from '@triplock/testing';
import { forwardPort, gatewaySettings, startGateway } from './test/gateway-process.ts';

const body = { amount: 1_250, currency: 'EUR', description: 'a secret description' };

describe('booting the gateway', () => {
  it('names every setting that is missing or malformed, and exits with 2', async (t) => {
    const settings = { HTTP_PORT: '0', REDIS_URL: 'http://redis' };
    const { exitCode, output } = await startGateway(t, { settings, apiKey: '' }).ended;
    assert.equal(exitCode, 2);
    for (const name of ['HTTP_PORT', 'ADMIN_PORT', 'REDIS_URL', 'KAFKA_BROKERS', 'DATABASE_URL']) {
      assert.match(output, new RegExp(`${name} is (missing|malformed)`));
    }
  });

  it('refuses to go without claims in production, and says so', async (t) => {
    const given = await gatewaySettings(t);
    const settings = { ...given.settings, CLAIMS: 'none', TRIPLOCK_MODE: 'production' };
    const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
    assert.equal(exitCode, 2);
    assert.match(output, /CLAIMS is refused, TRIPLOCK_MODE is production: .*name a store/);
  });

  it('takes every request for the first when it goes without claims', async (t) => {
    const given = await gatewaySettings(t);
    const settings = { ...given.settings, CLAIMS: 'none' };
    const gateway = startGateway(t, { ...given, settings });
    await gateway.ready();
    for (const amount of [1, 1, 2]) {
      const answer = await gateway.post({ ...body, amount }, { 'idempotency-key': 'one key' });
      assert.equal(answer.status, 202);
      assert.equal(answer.headers.get('idempotency-replayed'), null);
    }
    gateway.terminate();
    assert.match((await gateway.ended).output, /CLAIMS is none/);
  });

  it('refuses a Redis that evicts, and says what to set', async (t) => {
    const args = ['--maxmemory-policy', 'allkeys-lru'];
    const [redis, given] = await Promise.all([
      createTestRedis(t, { running: true, args }),
      gatewaySettings(t),
    ]);
    const settings = { ...given.settings, REDIS_URL: redis.url };
    const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
    assert.equal(exitCode, 1);
    assert.match(output, /maxmemory-policy allkeys-lru.*set maxmemory-policy noeviction/);
  });

  it('refuses in production a topic that may lose what it acknowledged, and says what to set', async (t) => {
    const given = await gatewaySettings(t);
    const plain = Object.fromEntries(
      ['DATABASE', 'REDIS', 'KAFKA'].map((part) => [`ALLOW_INSECURE_${part}`, 'true']),
    );
    const settings = { ...given.settings, ...plain, TRIPLOCK_MODE: 'production' };
    const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
    assert.equal(exitCode, 1);
    assert.match(output, /topic test\.\w+ has one replica,.* give it three replicas/);
  });

  it('names the setting of a port that is taken', async (t) => {
    const given = await gatewaySettings(t);
    const squatter = createServer().listen(Number(given.settings.HTTP_PORT), '127.0.0.1');
    t.after(() => squatter.close());
    const { exitCode, output } = await startGateway(t, given).ended;
    assert.equal(exitCode, 1);
    assert.match(output, /is taken: free it or set HTTP_PORT to another/);
  });

  it('starts while Redis, Kafka and PostgreSQL are away and recovers by itself', async (t) => {
    const given = await gatewaySettings(t);
    const { REDIS_URL, KAFKA_BROKERS, DATABASE_URL } = given.settings;
    const [redis, kafka, postgres] = [await freePort(), await freePort(), await freePort()];
    const database = new URL(DATABASE_URL);
    database.port = `${postgres}`;
    const settings = {
      ...given.settings,
      REDIS_URL: `redis://127.0.0.1:${redis}`,
      KAFKA_BROKERS: `127.0.0.1:${kafka}`,
      DATABASE_URL: database.href,
    };
    const gateway = startGateway(t, { ...given, settings });
    await eventually(async () => (await gateway.admin('/healthz')).ok);
    const readiness = await gateway.admin('/readyz');
    assert.equal(readiness.status, 503);
    const { checks } = (await readiness.json()) as { checks: Record<string, string> };
    for (const part of ['redis', 'kafka', 'postgres']) assert.notEqual(checks[part], 'ok', part);

    const begin = performance.now();
    const refused = await gateway.post(body, { 'idempotency-key': 'k' });
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.ok(performance.now() - begin < 3_000);

    await forwardPort(t, redis, REDIS_URL);
    await forwardPort(t, kafka, `kafka://${KAFKA_BROKERS}`);
    await forwardPort(t, postgres, DATABASE_URL);
    await gateway.ready();
    assert.equal((await gateway.post(body, { 'idempotency-key': 'k' })).status, 202);
  });
});

describe('a running gateway', () => {
  it('replays the same bytes, and logs neither keys nor bodies', async (t) => {
    const given = await gatewaySettings(t);
    const gateway = startGateway(t, given);
    await gateway.ready();
    const key = { 'idempotency-key': 'a-very-secret-key' };
    const first = await gateway.post(body, key);
    assert.equal(first.status, 202);
    assert.equal(first.headers.get('idempotency-replayed'), null);
    const replay = await gateway.post({ ...body }, { 'idempotency-key': '"a-very-secret-key"' });
    assert.equal(replay.status, 202);
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
    assert.equal(replay.headers.get('location'), first.headers.get('location'));
    assert.equal(replay.headers.get('content-type'), first.headers.get('content-type'));
    assert.equal(await replay.text(), await first.text());
    assert.equal((await gateway.post({ ...body, amount: 1 }, key)).status, 422);
    assert.equal((await gateway.post({ ...body, amount: 0 }, key)).status, 400);

    const location = first.headers.get('location')!;
    const seen = await gateway.get(location, { prefer: 'wait=1' });
    assert.equal(((await seen.json()) as { status: string }).status, 'pending');

    // Nobody posts here, and a list shows what the ledger has posted.
    const list = await (await gateway.get('/v1/payments?limit=1')).json();
    assert.deepEqual(list, { object: 'list', data: [], has_more: false });

    const metrics = await (await gateway.admin('/metrics')).text();
    for (const outcome of ['accepted', 'replayed', 'reused', 'refused']) {
      const series = `triplock_gateway_payments_total{outcome="${outcome}",service="ingest-gateway"}`;
      assert.ok(metrics.includes(`${series} 1`), outcome);
    }
    // The store was asked three times: the request that was refused never got so far.
    for (const outcome of ['claimed', 'completed', 'reused']) {
      const series = `triplock_gateway_claims_total{outcome="${outcome}",service="ingest-gateway"}`;
      assert.ok(metrics.includes(`${series} 1`), outcome);
    }
    assert.match(metrics, /^triplock_duplicates_caught_total\{guard="claims",.*\} 1$/m);
    assert.match(metrics, /^triplock_gateway_claim_seconds_count\{.*\} 3$/m);
    assert.match(metrics, /^triplock_gateway_append_seconds_count\{.*outcome="appended".*\} 1$/m);
    gateway.terminate();
    const { exitCode, output } = await gateway.ended;
    assert.equal(exitCode, 0);
    assert.match(output, new RegExp(`"txnId":"${location.slice(-36)}".*"outcome":"replayed"`));
    for (const secret of ['a-very-secret-key', 'a secret description', given.apiKey]) {
      assert.ok(!output.includes(secret), secret);
      assert.ok(!metrics.includes(secret), secret);
    }
  });

  it('answers 503 within 3 s while Redis stands still, and goes on when it moves again', async (t) => {
    const redis = await createTestRedis(t);
    const given = await gatewaySettings(t);
    const settings = { ...given.settings, REDIS_URL: redis.url };
    const gateway = startGateway(t, { ...given, settings });
    await gateway.ready();
    assert.equal((await gateway.post(body, { 'idempotency-key': 'before' })).status, 202);
    redis.pause();
    const begin = performance.now();
    const refused = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        gateway.post(body, { 'idempotency-key': `during-${n}` }),
      ),
    );
    assert.ok(performance.now() - begin < 3_000);
    assert.deepEqual(new Set(refused.map(({ status }) => status)), new Set([503]));
    redis.resume();
    await gateway.ready();
    const replay = await gateway.post(body, { 'idempotency-key': 'before' });
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
  });

  it('finishes what it holds on SIGTERM and lets nobody wait longer', async (t) => {
    const given = await gatewaySettings(t);
    const gateway = startGateway(t, given);
    await gateway.ready();
    const first = await gateway.post(body, { 'idempotency-key': 'one' });
    const waiting = gateway.get(first.headers.get('location')!, { prefer: 'wait=30' });
    await gateway.admin('/crash-points?name=gateway.claimed&action=pause&pauseMs=500', 'POST');
    const held = gateway.post(body, { 'idempotency-key': 'two' });
    await eventually(async () => {
      const { hits } = (await (await gateway.admin('/crash-points')).json()) as {
        hits: Record<string, number>;
      };
      return hits['gateway.claimed'] === 1;
    });
    gateway.terminate();
    assert.equal((await held).status, 202);
    assert.equal((await waiting).status, 200);
    assert.equal((await gateway.ended).exitCode, 0);
  });
});

/** A Redis of so much memory, the gateway on it, and what that says of itself. */
async function onSmallRedis(t: TestContext, wish: { maxmemory: string; shownBytes?: number }) {
  const { maxmemory, shownBytes } = wish;
  const redis = await createTestRedis(t, { running: true, args: ['--maxmemory', maxmemory] });
  const given = await gatewaySettings(t);
  const SHOWN_BYTES_PER_PARTNER = `${shownBytes ?? 64 * 1024 * 1024}`;
  const settings = { ...given.settings, SHOWN_BYTES_PER_PARTNER, REDIS_URL: redis.url };
  const gateway = startGateway(t, { ...given, settings });
  await gateway.ready();
  const readiness = async () => {
    const answer = await gateway.admin('/readyz');
    const { degraded, checks } = (await answer.json()) as {
      degraded?: boolean;
      checks: Record<string, string>;
    };
    return { status: answer.status, degraded, redis: checks['redis']! };
  };
  const memory = async () => {
    const metrics = await (await gateway.admin('/metrics')).text();
    const figure = (name: string) =>
      Number(
        new RegExp(`^triplock_gateway_claims_memory_${name}\\{.*\\} (.+)$`, 'm').exec(metrics)?.[1],
      );
    return { usedBytes: figure('bytes'), limitBytes: figure('limit_bytes') };
  };
  return { ...given, redis, gateway, readiness, memory };
}

describe('the memory of the claim store', () => {
  it('a partner that floods with the longest bodies stops itself alone, before the store is full', async (t) => {
    const shownBytes = 16 * 1024 * 1024;
    const opened = await onSmallRedis(t, { maxmemory: '48mb', shownBytes });
    const { gateway, otherApiKey } = opened;
    const { paymentMethod: payment_method, ...texts } = longestFields;
    const longest = { amount: 1, currency: 'EUR', payment_method, ...texts };
    // More than fits: 1 500 bodies of 45 KB are 68 MB.
    const flood = { left: 1_500, statuses: new Map<number, number>(), isOver: false };
    const one = async () => {
      while (flood.left > 0) {
        flood.left -= 1;
        const answer = await gateway.post(longest, { 'idempotency-key': `flood-${flood.left}` });
        flood.statuses.set(answer.status, (flood.statuses.get(answer.status) ?? 0) + 1);
        const problem = (await answer.json()) as { code?: string };
        if (answer.status !== 429) continue;
        assert.equal(problem.code, 'rate_limited');
        assert.ok(Number(answer.headers.get('retry-after')) <= 60);
      }
    };
    const waits: number[] = [];
    const beside = async () => {
      for (let n = 0; !flood.isOver; n += 1) {
        const began = performance.now();
        const headers = {
          'idempotency-key': `beside-${n}`,
          authorization: `Bearer ${otherApiKey}`,
        };
        const answer = await gateway.post(body, headers);
        assert.equal(answer.status, 202, 'another partner is refused');
        waits.push(performance.now() - began);
      }
    };
    const other = beside();
    await Promise.all(Array.from({ length: 16 }, one)).finally(() => (flood.isOver = true));
    await other;
    const [accepted = 0, refused = 0] = [202, 429].map((status) => flood.statuses.get(status));
    assert.equal(accepted + refused, 1_500, JSON.stringify([...flood.statuses]));
    const { usedBytes, limitBytes } = await opened.memory();
    assert.ok(usedBytes < 0.8 * limitBytes, `${usedBytes} of ${limitBytes} bytes`);
    const p99 = waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.99)]!;
    const line = `${accepted} of 1 500 accepted, ${(usedBytes / 2 ** 20).toFixed(1)} MiB used`;
    t.diagnostic(`${line}; another partner: ${waits.length} payments, p99 ${p99.toFixed(0)} ms`);
    assert.equal((await opened.readiness()).degraded, undefined);
    const replay = await gateway.post(longest, { 'idempotency-key': 'flood-1499' });
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
  });

  it('a gateway says that it is degraded before the store is full, goes on, and recovers by itself', async (t) => {
    const { gateway, redis, readiness } = await onSmallRedis(t, { maxmemory: '8mb' });
    const pay = (key: string) => gateway.post(body, { 'idempotency-key': key });
    assert.equal((await pay('before')).status, 202);
    await redis.command('SETRANGE', 'somebody else', '5800000', 'x');
    await eventually(async () => (await readiness()).degraded === true);
    const { status, redis: said } = await readiness();
    assert.equal(status, 200);
    assert.match(said, /nearly full: \d+ % of its memory is used/);
    assert.equal((await pay('nearly full')).status, 202);
    await redis.command('SETRANGE', 'somebody else', '7900000', 'x');
    const full = await pay('full');
    assert.equal(full.status, 503);
    assert.equal(full.headers.get('retry-after'), '1');
    assert.equal((await pay('before')).headers.get('idempotency-replayed'), 'true');
    await redis.command('DEL', 'somebody else');
    assert.equal((await pay('full')).status, 202);
    await eventually(async () => (await readiness()).degraded === undefined);
  });
});
