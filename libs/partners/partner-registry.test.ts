import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { currentApiVersion } from '@triplock/contracts';
import type { Fingerprint, IdempotencyKey, PartnerId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import { openPartnerKeys } from './partner-keys.ts';
import { openPartnerRegistry } from './partner-registry.ts';
import { openPartners } from './partners.ts';
import { firstEndpoint } from './test/webhook-deliveries.ts';
import { openWebhookEndpoints, rotateSecretAs } from './webhook-endpoints.ts';
import { parseWebhookKeys } from './webhook-secrets.ts';

const acme = 'acme' as PartnerId;
const good = {
  outcome: 'authenticated',
  partnerId: acme,
  cardNumbersIn: [],
  scope: 'full',
  apiVersion: currentApiVersion,
  expiresAtMs: Infinity,
};
const ada = { by: 'ada', why: 'a test' };
const refused = { outcome: 'refused' };

/** The registry as its operator has it, and a gateway whose clock the test sets. */
async function aRegistry(context: TestContext) {
  const store = await createTestDatabase(context);
  let nowMs = 0;
  const gateway = openPartners(store.open('triplock_gateway'), { clock: () => nowMs });
  return {
    registry: openPartnerRegistry(store.open('triplock_partners')),
    store,
    owner: store.open(),
    /** Which key it was is left out. */
    authenticate: async (apiKey: string) => {
      const { keyId: _, ...rest } = (await gateway.authenticate(apiKey)) as { keyId?: string };
      return rest;
    },
    storeKeyUses: gateway.storeKeyUses,
    /** Another one, that remembers nothing. */
    newGateway: () => openPartners(store.open('triplock_gateway')).authenticate,
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
  const apiKey = await added(registry.add(acme, ada));
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
  assert.deepEqual(await registry.add(acme, ada), { outcome: 'exists' });
  assert.equal((await registry.list())[0]!.keys.length, 1);
});

test('a new key is good at once, and the old one until it is revoked', async (context) => {
  const { registry, authenticate, letPass } = await aRegistry(context);
  const first = await added(registry.add(acme, ada));
  const second = await added(registry.addKey(acme, ada));
  assert.deepEqual([await authenticate(first), await authenticate(second)], [good, good]);
  const { prefix } = (await registry.list())[0]!.keys[0]!;
  assert.deepEqual(await registry.revokeKey(acme, prefix!, ada), { outcome: 'revoked' });
  letPass(5_000);
  assert.deepEqual([await authenticate(first), await authenticate(second)], [refused, good]);
  const [old, now] = (await registry.list())[0]!.keys;
  assert.ok(old!.revokedAt instanceof Date);
  assert.equal(now!.revokedAt, null);
});

test('a new key is for everything, or for what it was made for', async (context) => {
  const { registry, authenticate } = await aRegistry(context);
  await registry.add(acme, ada);
  for (const scope of ['read', 'pay', 'full'] as const) {
    const key = await added(registry.addKey(acme, ada, { scope }));
    assert.deepEqual(await authenticate(key), { ...good, scope });
  }
  const [{ keys } = assert.fail()] = await registry.list();
  assert.deepEqual(
    keys.map(({ scope }) => scope),
    ['full', 'read', 'pay', 'full'],
  );
});

test('a key goes on getting the version that it was made under, as far as that is known', async (context) => {
  const { registry, newGateway, owner } = await aRegistry(context);
  const keys = [await added(registry.add(acme, ada)), await added(registry.addKey(acme, ada))];
  const kept = await owner.query('SELECT DISTINCT api_version AS version FROM partners.api_keys');
  assert.deepEqual(kept, [{ version: currentApiVersion }]);
  // Of a later release that was taken back, and of none.
  for (const version of ['2999-01-01', null]) {
    await owner.query('UPDATE partners.api_keys SET api_version = $1', [version]);
    const authenticate = newGateway();
    for (const key of keys) {
      assert.partialDeepStrictEqual(await authenticate(key), { apiVersion: currentApiVersion });
    }
  }
});

test('a key that may expire does so, within five years', async (context) => {
  const { registry, authenticate, newGateway, owner } = await aRegistry(context);
  await registry.add(acme, ada);
  const year = 365 * 86_400_000;
  for (const ms of [-1_000, 5.1 * year]) {
    const wishes = { expiresAt: new Date(Date.now() + ms) };
    assert.deepEqual(await registry.addKey(acme, ada, wishes), { outcome: 'wrong-expiry' });
  }
  const expiresAt = new Date(Date.now() + 4 * year);
  const key = await added(registry.addKey(acme, ada, { expiresAt }));
  assert.deepEqual(await authenticate(key), { ...good, expiresAtMs: expiresAt.getTime() });
  await owner.query(`UPDATE partners.api_keys SET expires_at = '2026-01-02T03:04:05Z'
    WHERE expires_at IS NOT NULL`);
  const later = newGateway();
  assert.deepEqual(await later(key), { outcome: 'expired', at: new Date('2026-01-02T03:04:05Z') });
  assert.deepEqual(await later(`${key}x`), refused, 'who has not the whole key learns nothing');
  assert.equal((await registry.acts()).filter(({ act }) => act === 'rotate-key').length, 1);
});

test('when a key was last used is written down by the way, and not for each request', async (context) => {
  const { registry, authenticate, storeKeyUses, owner, letPass } = await aRegistry(context);
  const key = await added(registry.add(acme, ada));
  await added(registry.addKey(acme, ada));
  const used = async () => (await registry.list())[0]!.keys.map(({ lastUsedAt }) => lastUsedAt);
  await authenticate(key);
  assert.deepEqual(await used(), [null, null]);
  // Half a minute ago, by no clock but the database's.
  letPass(30_000);
  assert.equal(await storeKeyUses(), 0);
  const [first, never] = await used();
  const [row] = await owner.query<{ now: Date }>('SELECT now()');
  assert.ok(Math.abs(row!.now.getTime() - first!.getTime() - 30_000) < 10_000);
  assert.equal(never, null);
  const written = 'SELECT xmin::text FROM partners.api_keys ORDER BY created_at';
  const before = await owner.query(written);
  letPass(10_000);
  await authenticate(key);
  await storeKeyUses();
  assert.deepEqual(await owner.query(written), before, 'once in a minute is enough');
  assert.deepEqual(await used(), [first, null]);
});

test('a key is revoked only when it alone is named', async (context) => {
  const { registry, authenticate, letPass } = await aRegistry(context);
  const keys = [await added(registry.add(acme, ada)), await added(registry.addKey(acme, ada))];
  const globex = await added(registry.add('globex' as PartnerId, ada));
  assert.deepEqual(await registry.revokeKey(acme, 'tl_acme_', ada), { outcome: 'several-keys' });
  for (const beginning of ['tl_acme_?', globex, `${keys[0]}x`, keys[0]!.slice(0, -1)]) {
    assert.deepEqual(await registry.revokeKey(acme, beginning, ada), { outcome: 'no-such-key' });
  }
  letPass(5_000);
  for (const key of keys) assert.deepEqual(await authenticate(key), good);
  assert.deepEqual(await registry.revokeKey(acme, keys[0]!, ada), { outcome: 'revoked' });
  assert.deepEqual(await registry.revokeKey(acme, keys[0]!, ada), { outcome: 'no-such-key' });
  assert.deepEqual(await registry.revokeKey(acme, 'tl_acme_', ada), { outcome: 'revoked' });
});

test('nobody gets a key for a partner that is not there, or a name that is none', async (context) => {
  const { registry } = await aRegistry(context);
  assert.deepEqual(await registry.addKey(acme, ada), { outcome: 'no-partner' });
  await assert.rejects(registry.add('Not A Name' as PartnerId, ada), /check constraint/);
  assert.deepEqual(await registry.list(), []);
});

test('what looks like card numbers is let through for the partner that it was allowed, until it is not', async (context) => {
  const { registry, authenticate, letPass } = await aRegistry(context);
  const keys = [await added(registry.add(acme, ada)), await added(registry.addKey(acme, ada))];
  const other = await added(registry.add('globex' as PartnerId, ada));
  assert.deepEqual(await authenticate(keys[0]!), good);
  const set = (fields: string[]) =>
    registry.setCardNumbers(acme, fields, { by: 'bob', why: 'its references are bare numbers' });
  assert.deepEqual(await set(['metadata.kid', 'reference']), { outcome: 'set' });
  assert.deepEqual(await set(['*']), { outcome: 'set' });
  assert.deepEqual(await set(['*']), { outcome: 'unchanged' });
  letPass(5_000);
  for (const key of keys) {
    assert.deepEqual(await authenticate(key), { ...good, cardNumbersIn: ['*'] });
  }
  assert.deepEqual(await authenticate(other), { ...good, partnerId: 'globex' });
  const allowed = (await registry.list()).map((each) => each.cardNumbersIn);
  assert.deepEqual(allowed, [['*'], []]);
  assert.deepEqual(await set([]), { outcome: 'set' });
  letPass(5_000);
  assert.deepEqual(await authenticate(keys[0]!), good);
  assert.deepEqual(await registry.setCardNumbers('nobody' as PartnerId, ['*'], ada), {
    outcome: 'no-partner',
  });
  const acts = (await registry.acts()).filter(({ by }) => by === 'bob');
  assert.deepEqual(
    acts.map(({ act, partner, subject, why }) => [act, partner, subject, why]),
    [
      ['allow-card-numbers', 'metadata.kid,reference'],
      ['allow-card-numbers', null],
      ['refuse-card-numbers', null],
    ].map(([act, subject]) => [act, acme, subject, 'its references are bare numbers']),
  );
});

const line = (id: string, byte: number) => `${id}:${Buffer.alloc(32, byte).toString('base64')}`;

test('secrets are sealed anew under the newest key while both open, and then the old key may go', async (context) => {
  const { registry, store, owner } = await aRegistry(context);
  const [old, both, next] = [
    line('old', 1),
    `${line('new', 2)}\n${line('old', 1)}`,
    line('new', 2),
  ];
  const partners = Array.from({ length: 103 }, (_, n) => `partner-${n}` as PartnerId);
  for (const id of partners) await registry.add(id, ada);
  const before = openWebhookEndpoints(store.open('triplock_gateway'), parseWebhookKeys(old));
  const secrets = new Map<PartnerId, string>();
  for (const partnerId of partners) {
    const made = await before.setUrl({ partnerId, url: 'https://partner.example' });
    assert.ok(made.outcome === 'made');
    secrets.set(partnerId, made.secret);
  }
  const [first] = partners as [PartnerId];
  const rotation = { partnerId: first, key: 'once' as IdempotencyKey };
  const rotated = await before.rotateSecret(rotation);
  const versions = () =>
    owner.query('SELECT partner_id, updated_at FROM partners.webhook_endpoints ORDER BY 1');
  const unchanged = await versions();

  // One that has only the newest names what it lacks, and writes nothing.
  const blind = await registry.resealSecrets(parseWebhookKeys(next), ada);
  assert.equal(blind.resealed, 0);
  assert.equal(blind.unreadable.length, partners.length);
  assert.match(blind.unreadable[0]!.why, /sealed with the key old, which WEBHOOK_KEYS lacks/);

  // Whoever has both reads what is sealed with either; one act for each partner.
  const sealer = parseWebhookKeys(both);
  // A new API key that nobody has used is counted, and not sealed anew: it ends within a day.
  const [asking] = await owner.query<{ key_id: string }>(
    'SELECT key_id FROM partners.api_keys WHERE partner_id = $1',
    [first],
  );
  const newKeys = openPartnerKeys(store.open('triplock_gateway'), parseWebhookKeys(old));
  const order = { scope: 'pay', name: null, expiresAt: null } as const;
  const whose = { partnerId: first, askedBy: asking!.key_id, key: 'a key' as IdempotencyKey };
  const print = 'f'.repeat(64) as Fingerprint;
  const unused = await newKeys.make({ ...whose, ...order, fingerprint: print });
  assert.equal(unused.outcome, 'made');
  const done = { unreadable: [], apiKeysLeft: 1 };
  assert.deepEqual(await registry.resealSecrets(sealer, ada), { resealed: 103, ...done });
  assert.deepEqual(await registry.resealSecrets(sealer, ada), { resealed: 0, ...done });
  await owner.query('UPDATE partners.api_keys SET sealed = NULL');
  const none = { unreadable: [], apiKeysLeft: 0 };
  assert.deepEqual(await registry.resealSecrets(sealer, ada), { resealed: 0, ...none });
  assert.deepEqual(await versions(), unchanged, 'nothing that anybody is told has changed');
  const acts = (await registry.acts()).filter(({ act }) => act === 'reseal-secrets');
  assert.equal(acts.length, 103);

  const webhookKeys = parseWebhookKeys(next);
  const after = openPartners(store.open('triplock_notifier'), { webhookKeys });
  await owner.query(
    'UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()',
  );
  for (const id of partners) {
    const found = (await after.webhookEndpoint(await firstEndpoint(owner, id)))!.secrets;
    assert.equal(found.at(-1), secrets.get(id));
  }
  const gateway = openWebhookEndpoints(store.open('triplock_gateway'), webhookKeys);
  assert.deepEqual(await gateway.rotateSecret(rotation), { ...rotated, outcome: 'replayed' });
});

test('an operator rotates a secret as its partner does, once for each key, and early only on purpose', async (context) => {
  const { registry, store, owner } = await aRegistry(context);
  await registry.add(acme, ada);
  const keys = parseWebhookKeys(line('test', 1));
  const [own, theirs] = [store.open('triplock_gateway'), store.open('triplock_partners')];
  const ofAcme = { partnerId: acme, actor: ada };
  const rotate = (key: string, when: 'rested' | 'even-early' = 'rested') =>
    rotateSecretAs(theirs, keys, { ...ofAcme, key: key as IdempotencyKey, when });
  assert.deepEqual(await rotate('one'), { outcome: 'no-endpoint' });
  const gateway = openWebhookEndpoints(own, keys);
  await gateway.setUrl({ partnerId: acme, url: 'https://partner.example' });
  const all = await Promise.all(['one', 'one', 'two'].map((key) => rotate(key)));
  const outcomes = all.map(({ outcome }) => outcome).sort();
  // Whichever key came first, the other one was too early.
  const first = all[2]!.outcome === 'rotated' ? 'two' : 'one';
  const second = first === 'one' ? 'replayed' : 'two-sign';
  assert.deepEqual(outcomes, [second, 'rotated', 'two-sign'].sort());
  assert.equal((await rotate(first)).outcome, 'replayed');
  assert.equal((await rotate('three', 'even-early')).outcome, 'rotated');
  await owner.query('UPDATE partners.webhook_endpoints SET second_secret_until = now()');
  assert.equal((await rotate('four')).outcome, 'rotated');
  const acts = (await registry.acts(acme)).filter(({ act }) => act === 'rotate-secret');
  assert.deepEqual(
    acts.map(({ by, why }) => ({ by, why })),
    Array(3).fill(ada),
  );
});

test('who did what to a partner, and why, is written with it, and nobody changes it', async (context) => {
  const { registry, store, owner } = await aRegistry(context);
  const key = await added(registry.add(acme, ada));
  await registry.add(acme, ada);
  await registry.addKey(acme, { by: 'bob', why: null });
  await registry.revokeKey(acme, key, { by: 'bob', why: 'it leaked' });
  await registry.revokeKey(acme, key, { by: 'bob', why: 'again' });
  const keys = parseWebhookKeys(line('test', 1));
  const gateway = store.open('triplock_gateway');
  const endpoints = openWebhookEndpoints(gateway, keys);
  const set = (url: string) => endpoints.setUrl({ partnerId: acme, url });
  for (const url of [
    'https://one.example/?token=a',
    'https://one.example/?token=a',
    'https://two.example',
  ]) {
    await set(url);
  }
  const rotation = { partnerId: acme, key: 'once' as IdempotencyKey };
  await Promise.all([endpoints.rotateSecret(rotation), endpoints.rotateSecret(rotation)]);
  const notifier = openPartners(store.open('triplock_notifier'), { webhookKeys: keys });
  const [question = assert.fail()] = await notifier.takeQuestions(1, 'paced');
  await notifier.verifyEndpoint(question, 'it said so');
  await notifier.disableEndpoint(question);

  const acts = await registry.acts(acme);
  assert.deepEqual(
    acts.map(({ act, by, why }) => [act, by, why]),
    [
      ['add', 'ada', 'a test'],
      ['rotate-key', 'bob', null],
      ['revoke-key', 'bob', 'it leaked'],
      ['make-endpoint', 'partner acme', 'PUT /v1/webhook-endpoint'],
      ['set-endpoint', 'partner acme', 'PUT /v1/webhook-endpoint'],
      ['rotate-secret', 'partner acme', 'POST /v1/webhook-endpoint/secrets'],
      ['verify-endpoint', 'webhook sender', 'it said so'],
      ['disable-endpoint', 'webhook sender', 'its server answered 410 Gone'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(acts), /token=a|whsec_/);
  assert.ok(!JSON.stringify(acts).includes(key));
  assert.deepEqual(await registry.acts('globex' as PartnerId), []);

  const change = `UPDATE partners.acts SET done_by = 'nobody'`;
  for (const statement of [change, 'DELETE FROM partners.acts', 'TRUNCATE partners.acts']) {
    await assert.rejects(owner.query(statement), /history is only added to/);
    for (const role of [
      'triplock_partners',
      'triplock_gateway',
      'triplock_notifier',
      'triplock_auditor',
    ] as const) {
      await assert.rejects(store.open(role).query(statement), /permission denied/, role);
    }
  }
  await assert.rejects(gateway.query('SELECT FROM partners.acts'), /permission denied/);
  assert.equal((await registry.acts(acme)).length, acts.length);
});

test('what each endpoint wanted since when is written down with every change, and kept', async (context) => {
  const { owner, store: database } = await aRegistry(context);
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme'), ('globex')`);
  const gateway = database.open('triplock_gateway');
  const store = openWebhookEndpoints(gateway, parseWebhookKeys(line('test', 1)));
  const key = 'key' as IdempotencyKey;
  const made = await store.make({
    partnerId: acme,
    key,
    fingerprint: 'one' as Fingerprint,
    url: 'https://one.example',
    wants: ['payment.failed'],
  });
  assert.ok(made.outcome === 'made');
  const one = { partnerId: acme, id: made.id };
  await store.change(one, { wants: 'all' });
  await store.change(one, { url: 'https://two.example', description: 'the same wishes' });
  await store.change(one, { wants: 'all' });
  assert.equal(await store.delete({ ...one, partnerId: 'globex' as PartnerId }), false);
  assert.deepEqual([await store.delete(one), await store.delete(one)], [true, false]);
  assert.equal(await store.change(one, { wants: 'all' }), undefined);
  const wishes = await owner.query<{ event_types: string[] | null; ended: boolean }>(
    `SELECT event_types, until < 'infinity' AS ended FROM partners.endpoint_wants ORDER BY since`,
  );
  assert.deepEqual(
    wishes.map(({ event_types: types, ended }) => [types, ended]),
    [
      [['payment.failed'], true],
      [null, true],
      [[], false],
    ],
  );
  await assert.rejects(owner.query('DELETE FROM partners.endpoint_wishes'));
  const [left] = await owner.query(
    'SELECT secrets, rotations, second_secret_until FROM partners.webhook_endpoints',
  );
  assert.deepEqual(left, { secrets: [], rotations: [], second_secret_until: null });
});
