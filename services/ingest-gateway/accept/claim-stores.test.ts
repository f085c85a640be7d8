import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { aClaim, aFingerprint, anAnswer, expectOutcome } from '@triplock/claims/test';
import { claimStores } from '@triplock/claim-stores';
import { createClaimsTable } from '@triplock/claims-dynamodb';
import { createLogger } from '@triplock/runtime';
import { createTestTable } from '@triplock/testing';
import { gatewaySettings, startGateway, type GatewayProcess } from '../test/gateway-process.ts';

const body = { amount: 1_250, currency: 'EUR', description: 'one  ✓' };

async function dynamoSettings(t: TestContext) {
  const { region, table, emulator } = await createTestTable(t, createClaimsTable);
  return { DYNAMODB_REGION: region, DYNAMODB_TABLE: table, DYNAMODB_ENDPOINT: emulator };
}

/** Posts it, retries it, reuses its key, and gives the path at which it is read. */
async function acceptOnce(
  { post, get }: GatewayProcess,
  { path, body }: { path: string; body: { amount: number } },
): Promise<string> {
  const key = { 'idempotency-key': 'order-1001' };
  const first = await post(body, key, path);
  assert.equal(first.status, 202);
  assert.equal(first.headers.get('idempotency-replayed'), null);
  const answered = await first.text();
  for (let retry = 0; retry < 3; retry += 1) {
    const replay = await post(body, key, path);
    assert.equal(replay.status, 202);
    assert.equal(replay.headers.get('idempotency-replayed'), 'true');
    assert.equal(await replay.text(), answered);
  }
  const reused = await post({ ...body, amount: body.amount + 1 }, key, path);
  assert.equal(reused.status, 422);
  const location = first.headers.get('location')!;
  assert.equal((await get(location)).status, 200);
  return location;
}

describe('claim stores of the gateway', () => {
  for (const store of ['postgres', 'hybrid', 'dynamodb']) {
    it(`payments and refunds, their retries and reused keys are distinguished by claims in ${store}`, async (t) => {
      const given = await gatewaySettings(t);
      const place = store === 'dynamodb' ? await dynamoSettings(t) : {};
      const settings = { ...given.settings, ...place, CLAIMS: store };
      const gateway = startGateway(t, { ...given, settings });
      await gateway.ready();

      const payment = await acceptOnce(gateway, { path: '/v1/payments', body });
      await acceptOnce(gateway, { path: `${payment}/refunds`, body: { amount: 250 } });

      const { checks } = (await (await gateway.admin('/readyz')).json()) as { checks: object };
      assert.deepEqual(Object.keys(checks).sort(), ['claims', 'kafka', 'postgres']);
      gateway.terminate();
      assert.equal((await gateway.ended).exitCode, 0);
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
    await claims.complete({ ...request, ...first }, anAnswer);
    const again = expectOutcome(await claims.claim(request), 'claimed');
    assert.notEqual(again.token, first.token);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'claimed');
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
  });
});
