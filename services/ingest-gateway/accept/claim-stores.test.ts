import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it, type TestContext } from 'node:test';
import { aClaim, aFingerprint, expectOutcome } from '@triplock/claims/test';
import {
  inspectClaims,
  keepingStores,
  neededBy,
  provisionClaimStore,
  readClaimStore,
  storeNamed,
  type KeepingStore,
} from '@triplock/claim-stores';
import { partnerLimits } from '@triplock/claims';
import { createLogger } from '@triplock/runtime';
import {
  createTestRedis,
  eventually,
  everyField,
  freePort,
  longestFields,
  rareTestPart,
  testNamespace,
} from '@triplock/testing';
import { gatewaySettings, startGateway, type GatewayProcess } from '../test/gateway-process.ts';

const small = { amount: 1_250, currency: 'EUR' };

type Posted = { path: string; body: { amount: number } };

/** Every field that a partner may send, with bytes easily spoilt, and each as long as it may be. */
const bodies = [everyField, longestFields].map((fields) => {
  const { paymentMethod, returnUrl, captureMethod, metadata, ...texts } = fields;
  // Over HTTP a text has no control characters.
  const pairs = Object.entries(metadata).map(([name, value]) => [name, value.replace('\t', ' ')]);
  const money = { amount: 1_250, currency: 'EUR' };
  return {
    ...money,
    ...texts,
    payment_method: paymentMethod,
    return_url: returnUrl,
    capture_method: captureMethod,
    metadata: Object.fromEntries(pairs.slice(0, 20)) as Record<string, string>,
  };
});

/** Where a store is that brings its own server along; it holds nothing of the test afterwards. */
async function placeOf(t: TestContext, store: KeepingStore, CLAIM_NAMESPACE: string) {
  const { brings: part, settingsAt } = storeNamed(store);
  if (part === undefined) return {};
  const address = await rareTestPart({ part, options: ['--claims', store] });
  const place = settingsAt({ redis: '', postgres: '', [part.name]: address });
  const settings = readClaimStore({ ...place, CLAIMS: store, CLAIM_NAMESPACE });
  await provisionClaimStore(settings);
  t.after(async () => {
    const claims = await inspectClaims(settings);
    await claims.forget();
    await claims.close();
  });
  return { ...place, CLAIM_NAMESPACE };
}

/** What a first request was answered, and how its retries are told from it. */
type First = Posted & { key: string; answered: string; location: string };

async function acceptFirst({ post, get }: GatewayProcess, posted: Posted): Promise<First> {
  const key = `order-${randomUUID()}`;
  // A store that is late on a busy machine is a 503, and as any partner the test asks again.
  const answer = await eventually(
    async () => {
      const each = await post(posted.body, { 'idempotency-key': key }, posted.path);
      return each.status !== 503 && each.status !== 409 && each;
    },
    { withinMs: 60_000, what: 'an answer' },
  );
  assert.equal(answer.status, 202);
  assert.equal(answer.headers.get('idempotency-replayed'), null);
  const location = answer.headers.get('location')!;
  assert.equal((await get(location)).status, 200);
  return { ...posted, key, location, answered: await answer.text() };
}

/** Retries get the same bytes, and another body 422. */
async function expectReplays({ post }: GatewayProcess, first: First): Promise<void> {
  const { path, body, answered, location } = first;
  const key = { 'idempotency-key': first.key };
  for (let retry = 0; retry < 2; retry += 1) {
    const replay = await post(body, key, path);
    assert.equal(replay.status, 202);
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
    assert.equal(replay.headers.get('location'), location);
    assert.ok((await replay.text()) === answered, 'a replay has other bytes');
  }
  const reused = await post({ ...body, amount: body.amount + 1 }, key, path);
  assert.equal(reused.status, 422);
}

describe('claim stores of the gateway', () => {
  for (const store of keepingStores) {
    it(`payments and refunds with every field are replayed byte for byte by claims in ${store}, at another gateway and after a restart`, async (t) => {
      const given = await gatewaySettings(t);
      const place = await placeOf(t, store, testNamespace());
      const start = async () => {
        const ports = { HTTP_PORT: `${await freePort()}`, ADMIN_PORT: `${await freePort()}` };
        const settings = { ...given.settings, ...place, ...ports, CLAIMS: store };
        const gateway = startGateway(t, { ...given, settings });
        await gateway.ready();
        return gateway;
      };
      const gateways = [await start(), await start()];
      const [one, other] = gateways as [GatewayProcess, GatewayProcess];
      const firsts: First[] = [];
      for (const body of bodies) {
        const payment = await acceptFirst(one, { path: '/v1/payments', body });
        const path = `${payment.location}/refunds`;
        const refund = { path, body: { amount: 250, reason: 'Ω "𝄞" \\ /' } };
        firsts.push(payment, await acceptFirst(one, refund));
      }
      for (const gateway of gateways) {
        for (const first of firsts) await expectReplays(gateway, first);
      }
      const { checks } = (await (await other.admin('/readyz')).json()) as { checks: object };
      const claims = store === 'redis' ? 'redis' : 'claims';
      assert.deepEqual(Object.keys(checks).sort(), [claims, 'kafka', 'postgres'].sort());
      for (const gateway of gateways) {
        gateway.terminate();
        assert.equal((await gateway.ended).exitCode, 0);
      }
      const restarted = await start();
      for (const first of firsts) await expectReplays(restarted, first);
    });
  }

  it('a setting that the store needs is named when it is missing', async (t) => {
    const given = await gatewaySettings(t);
    const { REDIS_URL, CLAIMS_DATABASE_URL, ...rest } = given.settings;
    assert.ok(REDIS_URL && CLAIMS_DATABASE_URL);
    const refuse = async (CLAIMS: KeepingStore) => {
      const names = neededBy(CLAIMS, 'claims');
      assert.ok(names.length > 0);
      const settings = { ...rest, CLAIMS };
      const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
      assert.equal(exitCode, 2);
      for (const name of names) {
        assert.match(output, new RegExp(`${name} is missing: CLAIMS=${CLAIMS} needs it`));
      }
    };
    await Promise.all(keepingStores.map(refuse));
  });
});

describe('no claim store', () => {
  it('makes every request the first, whatever was done under its key', async () => {
    const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
    const options = { namespace: 'none', applicationName: 'test', logger, ...partnerLimits };
    const claims = await storeNamed('none').open({}, options);
    const request = aClaim();
    const first = expectOutcome(await claims.claim(request), 'claimed');
    expectOutcome(await claims.claim(request), 'claimed');
    await claims.complete({ ...request, ...first });
    const again = expectOutcome(await claims.claim(request), 'claimed');
    assert.notEqual(again.token, first.token);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'claimed');
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
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
    const shownBytes = 8 * 1024 * 1024;
    const opened = await onSmallRedis(t, { maxmemory: '24mb', shownBytes });
    const { gateway, otherApiKey } = opened;
    const { paymentMethod: payment_method, returnUrl: return_url, ...rest } = longestFields;
    const { captureMethod: capture_method, ...texts } = rest;
    const ways = { payment_method, return_url, capture_method };
    const longest = { amount: 1, currency: 'EUR', ...ways, ...texts };
    // More than fits: 750 bodies of 45 KB are 34 MB.
    const flood = { left: 750, statuses: new Map<number, number>(), isOver: false };
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
        const answer = await gateway.post(small, headers);
        assert.equal(answer.status, 202, 'another partner is refused');
        waits.push(performance.now() - began);
      }
    };
    const other = beside();
    await Promise.all(Array.from({ length: 16 }, one)).finally(() => (flood.isOver = true));
    await other;
    const [accepted = 0, refused = 0] = [202, 429].map((status) => flood.statuses.get(status));
    assert.equal(accepted + refused, 750, JSON.stringify([...flood.statuses]));
    const { usedBytes, limitBytes } = await opened.memory();
    assert.ok(usedBytes < 0.8 * limitBytes, `${usedBytes} of ${limitBytes} bytes`);
    const p99 = waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.99)]!;
    const line = `${accepted} of 750 accepted, ${(usedBytes / 2 ** 20).toFixed(1)} MiB used`;
    t.diagnostic(`${line}; another partner: ${waits.length} payments, p99 ${p99.toFixed(0)} ms`);
    assert.equal((await opened.readiness()).degraded, undefined);
    const replay = await gateway.post(longest, { 'idempotency-key': 'flood-749' });
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
  });

  it('a gateway says that it is degraded before the store is full, goes on, and recovers by itself', async (t) => {
    const { gateway, redis, readiness } = await onSmallRedis(t, { maxmemory: '8mb' });
    const pay = (key: string) => gateway.post(small, { 'idempotency-key': key });
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
