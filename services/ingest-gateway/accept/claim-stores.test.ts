import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it, type TestContext } from 'node:test';
import { aClaim, aFingerprint, expectOutcome } from '@triplock/claims/test';
import { claimStores } from '@triplock/claim-stores';
import { createClaimsTable } from '@triplock/claims-dynamodb';
import { createLogger } from '@triplock/runtime';
import { createTestTable, everyField, freePort, longestFields } from '@triplock/testing';
import { gatewaySettings, startGateway, type GatewayProcess } from '../test/gateway-process.ts';

type Posted = { path: string; body: { amount: number } };

/** Every field that a partner may send, with bytes easily spoilt, and each as long as it may be. */
const bodies = [everyField, longestFields].map(({ paymentMethod, metadata, ...texts }) => {
  // Over HTTP a text has no control characters.
  const pairs = Object.entries(metadata).map(([name, value]) => [name, value.replace('\t', ' ')]);
  const money = { amount: 1_250, currency: 'EUR' };
  return {
    ...money,
    ...texts,
    payment_method: paymentMethod,
    metadata: Object.fromEntries(pairs.slice(0, 20)) as Record<string, string>,
  };
});

async function dynamoSettings(t: TestContext) {
  const { region, table, emulator } = await createTestTable(t, createClaimsTable);
  return { DYNAMODB_REGION: region, DYNAMODB_TABLE: table, DYNAMODB_ENDPOINT: emulator };
}

/** What a first request was answered, and how its retries are told from it. */
type First = Posted & { key: string; answered: string; location: string };

async function acceptFirst({ post, get }: GatewayProcess, posted: Posted): Promise<First> {
  const key = `order-${randomUUID()}`;
  const answer = await post(posted.body, { 'idempotency-key': key }, posted.path);
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
  for (const store of ['redis', 'postgres', 'hybrid', 'dynamodb']) {
    it(`payments and refunds with every field are replayed byte for byte by claims in ${store}, at another gateway and after a restart`, async (t) => {
      const given = await gatewaySettings(t);
      const place = store === 'dynamodb' ? await dynamoSettings(t) : {};
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
    const needed = Object.entries({
      redis: ['REDIS_URL'],
      postgres: ['CLAIMS_DATABASE_URL'],
      hybrid: ['CLAIMS_DATABASE_URL', 'REDIS_URL'],
      dynamodb: ['DYNAMODB_REGION'],
    });
    const refuse = async ([CLAIMS, names]: [string, string[]]) => {
      const settings = { ...rest, CLAIMS };
      const { exitCode, output } = await startGateway(t, { ...given, settings }).ended;
      assert.equal(exitCode, 2);
      for (const name of names) {
        assert.match(output, new RegExp(`${name} is missing: CLAIMS=${CLAIMS} needs it`));
      }
    };
    await Promise.all(needed.map(refuse));
  });
});

describe('no claim store', () => {
  it('makes every request the first, whatever was done under its key', async () => {
    const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
    const settings = {} as Parameters<typeof claimStores.none.claims.open>[0];
    const claims = await claimStores.none.claims.open(settings, { namespace: 'none', logger });
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
