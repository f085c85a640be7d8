import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { PartnerId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import { openPartnerRegistry } from './partner-registry.ts';
import { openPartners } from './partners.ts';

const acme = 'acme' as PartnerId;
const good = { outcome: 'authenticated', partnerId: acme };
const refused = { outcome: 'refused' };

/** The registry as its operator has it, and a gateway whose clock the test sets. */
async function aRegistry(context: TestContext) {
  const store = await createTestDatabase(context);
  let nowMs = 0;
  const gateway = openPartners(store.open('triplock_gateway'), { clock: () => nowMs });
  return {
    registry: openPartnerRegistry(store.open('triplock_partners')),
    owner: store.open(),
    authenticate: (apiKey: string) => gateway.authenticate(apiKey),
    letPass: (ms: number) => void (nowMs += ms),
  };
}

async function added(outcome: Promise<{ outcome: string; apiKey?: string }>): Promise<string> {
  const { apiKey } = await outcome;
  assert.ok(apiKey);
  return apiKey;
}

test('a partner gets in with the key that was shown once, and no part of it is enough', async (context) => {
  const { registry, authenticate, owner } = await aRegistry(context);
  const apiKey = await added(registry.add(acme));
  assert.deepEqual(await authenticate(apiKey), good);
  const [listed] = await registry.list();
  const { prefix } = listed!.keys[0]!;
  assert.ok(apiKey.startsWith(prefix!));
  assert.equal(apiKey.length - prefix!.length, 26);
  assert.deepEqual(await authenticate(prefix!), refused);
  const rows = await owner.query<{ row: string }>(
    'SELECT api_keys::text AS row FROM partners.api_keys',
  );
  assert.ok(!JSON.stringify(rows).includes(apiKey));
  assert.deepEqual(await registry.add(acme), { outcome: 'exists' });
  assert.equal((await registry.list())[0]!.keys.length, 1);
});

test('a new key is good at once, and the old one until it is revoked', async (context) => {
  const { registry, authenticate, letPass } = await aRegistry(context);
  const first = await added(registry.add(acme));
  const second = await added(registry.addKey(acme));
  assert.deepEqual([await authenticate(first), await authenticate(second)], [good, good]);
  const { prefix } = (await registry.list())[0]!.keys[0]!;
  assert.deepEqual(await registry.revokeKey(acme, prefix!), { outcome: 'revoked' });
  letPass(5_000);
  assert.deepEqual([await authenticate(first), await authenticate(second)], [refused, good]);
  const [old, now] = (await registry.list())[0]!.keys;
  assert.ok(old!.revokedAt instanceof Date);
  assert.equal(now!.revokedAt, null);
});

test('a key is revoked only when it alone is named', async (context) => {
  const { registry, authenticate, letPass } = await aRegistry(context);
  const keys = [await added(registry.add(acme)), await added(registry.addKey(acme))];
  const globex = await added(registry.add('globex' as PartnerId));
  assert.deepEqual(await registry.revokeKey(acme, 'tl_acme_'), { outcome: 'several-keys' });
  for (const beginning of ['tl_acme_?', globex, `${keys[0]}x`, keys[0]!.slice(0, -1)]) {
    assert.deepEqual(await registry.revokeKey(acme, beginning), { outcome: 'no-such-key' });
  }
  letPass(5_000);
  for (const key of keys) assert.deepEqual(await authenticate(key), good);
  assert.deepEqual(await registry.revokeKey(acme, keys[0]!), { outcome: 'revoked' });
  assert.deepEqual(await registry.revokeKey(acme, keys[0]!), { outcome: 'no-such-key' });
  assert.deepEqual(await registry.revokeKey(acme, 'tl_acme_'), { outcome: 'revoked' });
});

test('nobody gets a key for a partner that is not there, or a name that is none', async (context) => {
  const { registry } = await aRegistry(context);
  assert.deepEqual(await registry.addKey(acme), { outcome: 'no-partner' });
  await assert.rejects(registry.add('Not A Name' as PartnerId), /check constraint/);
  assert.deepEqual(await registry.list(), []);
});
