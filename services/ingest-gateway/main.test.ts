import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { cleanupBy, clocksOff, createTestRedis, eventually, freePort } from '@triplock/testing';
import { ingestGateway } from './service.ts';
import {
  forwardPort,
  gatewaySettings,
  severalGateways,
  startGateway,
  type GatewayProcess,
} from './test/gateway-process.ts';

const body = { amount: 1_250, currency: 'EUR', description: 'a secret description' };

describe('booting the gateway', () => {
  const all = cleanupBy(after);
  let given: Awaited<ReturnType<typeof gatewaySettings>>;
  before(async () => {
    given = await gatewaySettings(all);
  });

  it('names every setting that is missing or malformed, and exits with 2', async (t) => {
    const settings = { HTTP_PORT: '0', REDIS_URL: 'http://redis' };
    const { exitCode, output } = await startGateway(t, { settings, apiKey: '' }).ended;
    assert.equal(exitCode, 2);
    for (const name of ['HTTP_PORT', 'ADMIN_PORT', 'REDIS_URL', 'KAFKA_BROKERS', 'DATABASE_URL']) {
      assert.match(output, new RegExp(`${name} is (missing|malformed)`));
    }
  });

  it('refuses to go without claims in production, and says so', async (t) => {
    const settings = { ...given.settings, CLAIMS: 'none', TRIPLOCK_MODE: 'production' };
    const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
    assert.equal(exitCode, 2);
    assert.match(output, /CLAIMS is refused, TRIPLOCK_MODE is production: .*name a store/);
  });

  it('takes every request for the first when it goes without claims', async (t) => {
    // What it appends without claims is for others a loss of them.
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
    const redis = await createTestRedis(t, { running: true, args });
    const settings = { ...given.settings, REDIS_URL: redis.url };
    // One that does not answer in time counts as away, which is no reason to end.
    const { exitCode, output } = await eventually(async () => {
      const gateway = startGateway(t, { ...given, settings });
      let hasEnded = false;
      const ended = gateway.ended.finally(() => (hasEnded = true));
      const isUp = eventually(async () => {
        if (!hasEnded) await gateway.admin('/readyz');
        return true;
      });
      await Promise.race([ended, isUp]);
      if (!hasEnded) gateway.terminate();
      const end = await ended;
      assert.notEqual(end.exitCode, 0, 'Redis answered too late');
      return end;
    });
    assert.equal(exitCode, 1);
    assert.match(output, /maxmemory-policy allkeys-lru.*set maxmemory-policy noeviction/);
  });

  it('refuses in production a topic that may lose what it acknowledged, and says what to set', async (t) => {
    const plain = Object.fromEntries(
      ['DATABASE', 'REDIS', 'KAFKA'].map((part) => [`ALLOW_INSECURE_${part}`, 'true']),
    );
    const settings = { ...given.settings, ...plain, TRIPLOCK_MODE: 'production' };
    const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
    assert.equal(exitCode, 1);
    assert.match(output, /topic test\.\w+ has one replica,.* give it three replicas/);
  });

  it('names the setting of a port that is taken', async (t) => {
    const squatter = createServer().listen(Number(given.settings.HTTP_PORT), '127.0.0.1');
    t.after(() => squatter.close());
    const { exitCode, output } = await startGateway(t, given).ended;
    assert.equal(exitCode, 1);
    assert.match(output, /is taken: free it or set HTTP_PORT to another/);
  });

  it('starts while Redis, Kafka and PostgreSQL are away and recovers by itself', async (t) => {
    const { REDIS_URL, KAFKA_BROKERS, DATABASE_URL } = given.settings;
    const [redis, kafka, postgres] = [await freePort(), await freePort(), await freePort()];
    const through = (port: number, url: string) => Object.assign(new URL(url), { port }).href;
    const settings = {
      ...given.settings,
      REDIS_URL: through(redis, REDIS_URL),
      KAFKA_BROKERS: `127.0.0.1:${kafka}`,
      DATABASE_URL: through(postgres, DATABASE_URL),
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
    const lines = output.split('\n').filter((line) => line.includes('"outcome":"replayed"'));
    assert.equal(lines.length, 1);
    const { txnId, requestId } = JSON.parse(lines[0]!) as Record<string, unknown>;
    assert.deepEqual([txnId, requestId], [location.slice(-36), replay.headers.get('request-id')]);
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

const keyed = (key: string) => ({ 'idempotency-key': key });

/** What a request came to: its status, and that it was a replay. */
async function cameTo(answer: Promise<Response>): Promise<string> {
  const { status, headers } = await answer;
  return headers.get('idempotency-replayed') === 'true' ? `${status} replayed` : `${status}`;
}

describe('several gateways', () => {
  const all = cleanupBy(after);
  let several: Awaited<ReturnType<typeof severalGateways>>;
  before(async () => {
    several = await severalGateways(all);
  });
  /** How many records a test has appended so far, on the topic of all. */
  const countRecords = async () => {
    const before = await several.records();
    return async () => (await several.records()) - before;
  };

  describe('of which one is killed', () => {
    let other: GatewayProcess;
    before(async () => {
      other = await several.start();
    });

    /** What a retry gets before the lease ends and after it, and the records of both tries. */
    const windows: readonly {
      point: (typeof ingestGateway.crashPoints)[number];
      at: [before: string, after: string];
      records: bigint;
    }[] = [
      { point: 'gateway.claimed', at: ['409', '202'], records: 1n },
      { point: 'gateway.produced', at: ['409', '202'], records: 2n },
      { point: 'gateway.completed', at: ['202 replayed', '202 replayed'], records: 1n },
    ];

    it('are tried at every point that they have', () => {
      assert.deepEqual(
        windows.map(({ point }) => point),
        ingestGateway.crashPoints,
      );
    });

    for (const { point, at, records: appended } of windows) {
      it(`after ${point} go on with a key that it leaves, for the same request alone`, async () => {
        const records = await countRecords();
        const killed = await several.start({ CRASH_POINTS: `${point}=kill` });
        const key = keyed(`killed after ${point}`);
        await assert.rejects(killed.post(body, key), TypeError);
        assert.equal((await killed.ended).exitCode, null);
        const retry = () => cameTo(other.post(body, key));
        const another = () => cameTo(other.post({ ...body, amount: 1 }, key));
        assert.deepEqual([await another(), await retry()], ['422', at[0]]);
        await several.endLeases();
        assert.deepEqual([await another(), await retry()], ['422', at[1]]);
        assert.deepEqual([await another(), await retry()], ['422', '202 replayed']);
        assert.equal(await records(), appended);
      });
    }
  });

  const hoursOff = clocksOff.map(({ hours }) => `${hours} h`).join(' and ');
  it(`whose clocks are off by ${hoursOff} keep to the claims of the others, and they to theirs`, async () => {
    const records = await countRecords();
    const [right, ...off] = await Promise.all([
      several.start(),
      ...clocksOff.map(async ({ hours, settings }) => ({
        hours,
        gateway: await several.start(settings),
      })),
    ]);
    /** One accepts, and the other answers for it. */
    const between = async (first: GatewayProcess, other: GatewayProcess, key: string) => {
      const accepted = await first.post(body, keyed(key));
      assert.equal(accepted.status, 202);
      const text = await accepted.text();
      const replay = await other.post(body, keyed(key));
      assert.equal(replay.headers.get('idempotency-replayed'), 'true');
      assert.equal(await replay.text(), text);
      assert.equal(await cameTo(other.post({ ...body, amount: 1 }, keyed(key))), '422');
      const shown = await other.get(accepted.headers.get('location')!);
      const { created_at } = (await shown.json()) as { created_at: string };
      return (Date.parse(created_at) - Date.now()) / 3_600_000;
    };
    for (const { hours, gateway } of off) {
      assert.ok(Math.abs((await between(gateway, right, `off by ${hours}`)) - hours) < 0.5);
      assert.ok(Math.abs(await between(right, gateway, `right for ${hours}`)) < 0.5);
    }
    // A lease that runs is not over for them either.
    await right.admin('/crash-points?name=gateway.claimed&action=kill', 'POST');
    await assert.rejects(right.post(body, keyed('held')), TypeError);
    for (const { gateway } of off) {
      assert.equal(await cameTo(gateway.post(body, keyed('held'))), '409');
    }
    assert.equal(await records(), 4n);
  });
});
