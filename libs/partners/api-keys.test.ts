import assert from 'node:assert/strict';
import { test } from 'node:test';
import { currentApiVersion } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import {
  createAuthenticator,
  createKeyCache,
  PartnersUnavailableError,
  type FindKey,
  type KeyHolder,
} from './api-keys.ts';

const holder: KeyHolder = {
  partnerId: 'acme' as PartnerId,
  cardNumbersIn: [],
  scope: 'full',
  keyId: 'a key',
  apiVersion: currentApiVersion,
  expiresAtMs: Infinity,
};
const acme = { outcome: 'authenticated', ...holder };
const refused = { outcome: 'refused' };

/** A store whose answer, outage and clock the test sets. */
function aStore(partnerId: string | undefined) {
  const store = {
    holder: partnerId as PartnerId | undefined,
    expiresAtMs: Infinity,
    isUnreachable: false,
    asked: 0,
    nowMs: 0,
    uses: [] as string[],
  };
  const find: FindKey = async () => {
    store.asked += 1;
    if (store.isUnreachable) throw new Error('connect ECONNREFUSED');
    const { holder: partner, expiresAtMs } = store;
    return partner && { ...holder, partnerId: partner, expiresAtMs };
  };
  const authenticator = createAuthenticator(find, () => store.nowMs, {
    wallClock: () => store.nowMs,
    onUse: (keyId) => void store.uses.push(keyId),
  });
  return { store, authenticator, authenticate: () => authenticator.authenticate('tl_acme_key') };
}

test('a key is asked for once in five seconds, however many requests carry it', async () => {
  const { store, authenticate } = aStore('acme');
  const answers = await Promise.all(Array.from({ length: 100 }, authenticate));
  assert.deepEqual(answers[99], acme);
  store.nowMs = 4_999;
  await authenticate();
  assert.equal(store.asked, 1);
  store.nowMs = 5_000;
  await authenticate();
  assert.equal(store.asked, 2);
});

test('a revoked key is refused five seconds later, also after a long rest', async () => {
  const { store, authenticate } = aStore('acme');
  await authenticate();
  store.holder = undefined;
  store.nowMs = 4_999;
  assert.deepEqual(await authenticate(), acme);
  store.nowMs = 3_600_000;
  assert.deepEqual(await authenticate(), refused);
});

test('a key that was good stays good while the store is unreachable, and this is known', async () => {
  const { store, authenticator, authenticate } = aStore('acme');
  await authenticate();
  assert.equal(authenticator.stale(), false);
  store.isUnreachable = true;
  store.nowMs = 86_400_000;
  assert.deepEqual(await authenticate(), acme);
  assert.equal(authenticator.stale(), true);
  store.isUnreachable = false;
  store.nowMs += 1_000;
  await authenticate();
  assert.equal(authenticator.stale(), false);
});

test('a key expires at its time, also by memory and while the store is unreachable', async () => {
  const { store, authenticator, authenticate } = aStore('acme');
  store.expiresAtMs = 4_000;
  const expired = { outcome: 'expired', at: new Date(4_000) };
  store.nowMs = 3_999;
  assert.equal((await authenticate()).outcome, 'authenticated');
  store.nowMs = 4_000;
  assert.deepEqual(await authenticate(), expired);
  assert.equal(store.asked, 1);
  store.isUnreachable = true;
  store.nowMs = 9_000;
  assert.deepEqual(await authenticate(), expired);
  store.isUnreachable = false;
  store.nowMs = 12_000;
  assert.deepEqual(await authenticate(), expired);
  assert.equal(authenticator.warm(), false);
  assert.deepEqual(store.uses, ['a key'], 'it is not used any more');
  // One that was never good here is told so too, and asked for as seldom as an unknown one.
  const other = aStore('acme');
  other.store.expiresAtMs = 0;
  for (let n = 0; n < 10; n += 1) {
    assert.deepEqual(await other.authenticate(), { outcome: 'expired', at: new Date(0) });
  }
  assert.equal(other.store.asked, 1);
});

test('a key that expired keeps no gateway warm, asked for or not, while the store is unreachable', async () => {
  const { store, authenticator, authenticate } = aStore('acme');
  store.expiresAtMs = 4_000;
  await authenticate();
  assert.equal(authenticator.warm(), true);
  store.isUnreachable = true;
  store.nowMs = 4_000;
  assert.equal(authenticator.warm(), false, 'nobody has asked since');
  // Asked for while it is known as expired, and again beyond that.
  for (const nowMs of [5_000, 6_000, 20_000]) {
    store.nowMs = nowMs;
    assert.equal((await authenticate()).outcome, 'expired');
    assert.equal(authenticator.warm(), false);
  }
  assert.equal(store.uses.length, 1);
  // One that was told as expired by the store.
  const other = aStore('acme');
  other.store.expiresAtMs = 0;
  await other.authenticate();
  other.store.isUnreachable = true;
  other.store.nowMs = 3_000;
  assert.deepEqual(await other.authenticate(), { outcome: 'expired', at: new Date(0) });
  assert.equal(other.authenticator.warm(), false);
});

test('of a key in use one hears once in five seconds, and also while the store is unreachable', async () => {
  const { store, authenticate } = aStore('acme');
  for (let n = 0; n < 100; n += 1) await authenticate();
  assert.equal(store.uses.length, 1);
  store.nowMs = 5_000;
  for (let n = 0; n < 100; n += 1) await authenticate();
  assert.equal(store.uses.length, 2);
  store.isUnreachable = true;
  store.nowMs = 10_000;
  for (let n = 0; n < 100; n += 1) await authenticate();
  assert.equal(store.uses.length, 3);
  await aStore(undefined).authenticate();
});

test('it is known whether any key is good, and no longer after a revocation', async () => {
  const { store, authenticator, authenticate } = aStore(undefined);
  await authenticate();
  assert.equal(authenticator.warm(), false);
  store.holder = 'acme' as PartnerId;
  store.nowMs = 3_000;
  await authenticate();
  assert.equal(authenticator.warm(), true);
  store.holder = undefined;
  store.nowMs = 8_000;
  await authenticate();
  assert.equal(authenticator.warm(), false);
});

test('a store that is unreachable is asked once a second for each known key', async () => {
  const { store, authenticate } = aStore('acme');
  await authenticate();
  store.isUnreachable = true;
  store.nowMs = 5_000;
  for (let request = 0; request < 100; request += 1) await authenticate();
  assert.equal(store.asked, 2);
});

test('a store that hangs delays a known key by half a second at most', async () => {
  const hanging = Promise.withResolvers<undefined>();
  let nowMs = 0;
  let find: FindKey = async () => holder;
  const authenticator = createAuthenticator(
    (hash) => find(hash),
    () => nowMs,
  );
  await authenticator.authenticate('key');
  find = () => hanging.promise;
  nowMs = 5_000;
  const started = performance.now();
  assert.deepEqual(await authenticator.authenticate('key'), acme);
  assert.deepEqual(await authenticator.authenticate('key'), acme);
  assert.ok(performance.now() - started < 1_500);
  assert.equal(authenticator.stale(), true);
  hanging.resolve(undefined);
  await hanging.promise;
});

test('an unknown key is known as such for three seconds', async () => {
  const { store, authenticate } = aStore(undefined);
  assert.deepEqual(await authenticate(), refused);
  store.nowMs = 2_999;
  await authenticate();
  assert.equal(store.asked, 1);
  store.nowMs = 3_000;
  store.holder = 'acme' as PartnerId;
  assert.deepEqual(await authenticate(), acme);
});

test('an unknown key is neither accepted nor refused while the store is unreachable', async () => {
  const { store, authenticate } = aStore('acme');
  store.isUnreachable = true;
  await assert.rejects(authenticate, PartnersUnavailableError);
  store.isUnreachable = false;
  assert.deepEqual(await authenticate(), acme);
});

test('a text that is too long for a key is refused without a question', async () => {
  const { store, authenticator } = aStore('acme');
  assert.deepEqual(await authenticator.authenticate('x'.repeat(257)), refused);
  assert.equal(store.asked, 0);
});

const known = { authentication: { outcome: 'refused' }, trustedUntilMs: 0 } as const;

test('a full cache forgets the key that was not used for longest', () => {
  const cache = createKeyCache(2);
  cache.set('a', known);
  cache.set('b', known);
  cache.get('a');
  cache.set('c', known);
  assert.deepEqual(
    ['a', 'b', 'c'].map((key) => cache.get(key) !== undefined),
    [true, false, true],
  );
});
