import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  apiKeysMax,
  openPartnerKeys,
  openPartnerRegistry,
  openPartners,
  parseWebhookKeys,
} from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { createTestDatabase, testWebhookKeys } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { partialGateway, testAdmission } from '../test/gateway.ts';
import { addApiKeyRoutes } from './api-keys.ts';
import { partnerRoutes } from './partner-routes.ts';

const path = '/v1/api-keys';

type Asked = { as?: string; body?: object; key?: string };
type Method = 'GET' | 'POST' | 'DELETE';
type Listed = { id: string; scope: string; name: string | null; current: boolean };
type Made = Listed & { key?: string };

/** Gateways over one database, each with a memory of keys; acme's first key is an operator's. */
async function aSystem(t: TestContext) {
  const store = await createTestDatabase(t);
  const owner = store.open();
  const registry = openPartnerRegistry(store.open('triplock_partners'));
  const add = async (id: string) => {
    const made = await registry.add(id as PartnerId, { by: 'ada', why: null });
    assert.ok(made.outcome === 'added');
    return made.apiKey;
  };
  const [first, globex] = [await add('acme'), await add('globex')];
  const aGateway = async () => {
    const database = store.open('triplock_gateway');
    let nowMs = 0;
    const partners = openPartners(database, { clock: () => nowMs });
    const apiKeys = openPartnerKeys(database, parseWebhookKeys(testWebhookKeys));
    const parts = partialGateway({ apiKeys });
    const app = await createHttpServer({
      logger: parts.logger,
      admission: testAdmission((key) => partners.authenticate(key)),
      routes: (server) => addApiKeyRoutes(partnerRoutes(server), parts),
    });
    t.after(() => app.close());
    const ask = async (method: Method, url: string, { as = first, body, key }: Asked = {}) => {
      const answer = await app.inject({
        method,
        url,
        headers: {
          authorization: `Bearer ${as}`,
          ...(key !== undefined && { 'idempotency-key': key }),
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { payload: JSON.stringify(body) }),
      });
      const text = answer.payload;
      const json = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
      return { status: answer.statusCode, headers: answer.headers, text, json };
    };
    const make = async (key: string, body: object, as = first) => {
      const { status, json, text } = await ask('POST', path, { as, body, key });
      assert.equal(status, 201, text);
      return json as Made;
    };
    const list = async (as = first) => (await ask('GET', path, { as })).json['data'] as Listed[];
    return { ask, make, list, partners, letPass: (ms: number) => void (nowMs += ms) };
  };
  const gateway = await aGateway();
  return { ...gateway, store, owner, registry, first, globex, aGateway };
}

test('a partner rotates its key by itself: make, switch, delete the old one', async (t) => {
  const { make, list, ask, first, aGateway, registry } = await aSystem(t);
  const other = await aGateway();
  const [old] = await list();
  assert.partialDeepStrictEqual(old, { scope: 'full', name: null, current: true });
  assert.equal((await other.ask('GET', path)).status, 200);
  const made = await make('rotate', { scope: 'full', name: 'since March' });
  assert.match(made.key!, /^tl_acme_/);
  assert.equal(made.current, false);
  const listed = await list(made.key);
  assert.deepEqual(
    listed.map(({ id, name, current }) => [id, name, current]),
    [
      [old!.id, null, false],
      [made.id, 'since March', true],
    ],
  );
  assert.ok(!JSON.stringify(listed).includes(made.key!));
  assert.equal((await ask('DELETE', `${path}/${old!.id}`, { as: made.key! })).status, 204);
  other.letPass(5_000);
  assert.equal((await other.ask('GET', path, { as: first })).status, 401);
  assert.equal((await ask('DELETE', `${path}/${old!.id}`, { as: made.key! })).status, 404);
  const acts = await registry.acts('acme' as PartnerId);
  assert.deepEqual(
    acts.map(({ act, by }) => [act, by]),
    [
      ['add', 'ada'],
      ['make-key', 'partner acme'],
      ['delete-key', 'partner acme'],
    ],
  );
  assert.match(acts[1]!.why!, /^POST \/v1\/api-keys by tl_acme_/);
  for (const key of [first, made.key!]) assert.ok(!JSON.stringify(acts).includes(key));
});

test('who lost the answer asks again, and has the same key until it was used, for a day at most', async (t) => {
  const { ask, make, partners, owner, aGateway } = await aSystem(t);
  const idle = await aGateway();
  const body = { scope: 'pay', expires_at: '2030-01-02T03:04:05Z' };
  const asked = { body, key: 'once' };
  assert.equal((await ask('POST', path, { body })).status, 400);
  // As many at once as retries can be.
  const all = await Promise.all(Array.from({ length: 8 }, () => ask('POST', path, asked)));
  assert.deepEqual(new Set(all.map(({ status }) => status)), new Set([201]));
  assert.equal(new Set(all.map(({ text }) => text)).size, 1);
  const replays = all.filter(({ headers }) => headers['idempotency-replayed'] === 'true');
  assert.equal(replays.length, 7);
  const { key } = all[0]!.json as Made;
  assert.equal((await partners.authenticate(key!)).outcome, 'authenticated');
  const other = await ask('POST', path, { ...asked, body: { ...body, scope: 'full' } });
  assert.deepEqual([other.status, other.json['code']], [422, 'idempotency_key_reused']);

  assert.equal((await ask('POST', path, asked)).text, all[0]!.text, 'until its use is known');
  await partners.storeKeyUses();
  const used = await ask('POST', path, asked);
  const { key: _, ...rest } = all[0]!.json;
  assert.deepEqual(used.json, rest);
  assert.equal(used.headers['idempotency-replayed'], 'true');

  // One that nobody used is shown for a day, and then nobody has what it was sealed as.
  const unused = { scope: 'read' };
  await make('unused', unused);
  await owner.query(`UPDATE partners.api_keys SET created_at = now() - interval '25 h'
    WHERE sealed IS NOT NULL`);
  assert.equal((await make('unused', unused)).key, undefined);
  // No key was used since: an idle gateway's pass is enough.
  await idle.partners.storeKeyUses();
  const [kept] = await owner.query(
    'SELECT count(*)::integer FROM partners.api_keys WHERE sealed IS NOT NULL',
  );
  assert.deepEqual(kept, { count: 0 });
});

test('what is stored of a key shows it to nobody, and the gateway reads none of it', async (t) => {
  const { make, store, owner } = await aSystem(t);
  const { key } = await make('one', { scope: 'full' });
  const rows = await owner.query(`SELECT api_keys::text AS row FROM partners.api_keys`);
  assert.ok(!JSON.stringify(rows).includes(key!.slice(-26)));
  const gateway = store.open('triplock_gateway');
  for (const statement of [
    'SELECT sealed FROM partners.api_keys',
    'UPDATE partners.api_keys SET scope = $$full$$',
    'DELETE FROM partners.api_keys',
    `SELECT partners.key_that_manages('acme', gen_random_uuid())`,
  ]) {
    await assert.rejects(gateway.query(statement), /permission denied/, statement);
  }
});

test('the last good key for everything stays, also when two delete each other at once', async (t) => {
  const { ask, make, list, owner, first } = await aSystem(t);
  const [own] = await list();
  const deleteFirst = (as: string) => ask('DELETE', `${path}/${own!.id}`, { as });
  await make('reading', { scope: 'read' });
  const expiring = await make('expiring', { scope: 'full', expires_at: '2030-01-02T03:04:05Z' });
  await owner.query(`UPDATE partners.api_keys SET expires_at = now() WHERE key_id = $1`, [
    expiring.id,
  ]);
  const refused = await deleteFirst(first);
  assert.deepEqual([refused.status, refused.json['code']], [409, 'last_full_key']);
  assert.equal((await ask('DELETE', `${path}/${expiring.id}`)).status, 204, 'one that expired');
  const second = await make('second', { scope: 'full' });
  const statuses = await Promise.all([
    deleteFirst(second.key!).then(({ status }) => status),
    ask('DELETE', `${path}/${second.id}`, { as: first }).then(({ status }) => status),
  ]);
  assert.deepEqual(statuses.sort(), [204, 401]);
  const left = await owner.query(
    `SELECT FROM partners.live_api_keys WHERE partner_id = 'acme' AND scope = 'full'`,
  );
  assert.equal(left.length, 1);
});

test('a key that expires makes none that outlives it, nor does what it made', async (t) => {
  const { ask, make, owner } = await aSystem(t);
  const end = '2030-01-02T03:04:05.000Z';
  const expiring = await make('expiring', { scope: 'full', expires_at: end });
  const late = { scope: 'read', expires_at: '2030-01-02T03:04:05.001Z' };
  const refused = await ask('POST', path, { as: expiring.key!, body: late, key: 'late' });
  const [error] = (refused.json['errors'] ?? []) as { pointer: string; detail: string }[];
  assert.deepEqual([refused.status, error?.pointer], [400, '#/expires_at']);
  assert.ok(error!.detail.includes(end), error!.detail);
  const sooner = '2029-01-02T03:04:05.000Z';
  for (const [key, expires_at, ends] of [
    ['same', end, end],
    ['sooner', sooner, sooner],
    ['none said', undefined, end],
  ]) {
    const body = { scope: 'full', expires_at };
    const made = await ask('POST', path, { as: expiring.key!, body, key: key! });
    assert.deepEqual([made.status, made.json['expires_at']], [201, ends]);
    // Whoever asks again, also by a key that does not expire, has the first answer.
    assert.equal((await ask('POST', path, { body, key: key! })).text, made.text);
    const next = await ask('POST', path, {
      as: (made.json as Made).key!,
      body: { scope: 'read' },
      key: `of ${key}`,
    });
    assert.equal(next.json['expires_at'], ends);
  }
  // Nor has it one shown that another key made.
  await make('endless', { scope: 'full' });
  const shown = await make('endless', { scope: 'full' }, expiring.key);
  assert.deepEqual([shown.key, 'id' in shown], [undefined, true]);
  assert.notEqual((await make('endless', { scope: 'full' })).key, undefined);
  await owner.query(`DELETE FROM partners.api_keys WHERE key_id = $1`, [shown.id]);
  const outliving = await owner.query(
    `SELECT FROM partners.api_keys WHERE made_from IS NOT NULL AND (expires_at IS NULL OR expires_at > $1)`,
    [end],
  );
  assert.equal(outliving.length, 0);
});

test('a key that ends within the hour is no successor of the last one for everything', async (t) => {
  const { ask, make, list, owner, first } = await aSystem(t);
  const [own] = await list();
  const ends = (id: string, within: string) =>
    owner.query(
      'UPDATE partners.api_keys SET expires_at = now() + $2::interval WHERE key_id = $1',
      [id, within],
    );
  const next = await make('next', { scope: 'full' });
  await ends(next.id, '59 minutes');
  const remove = async (id: string, as = first) =>
    (await ask('DELETE', `${path}/${id}`, { as })).status;
  assert.equal(await remove(own!.id), 409);
  assert.equal(await remove(own!.id, next.key), 409, 'whoever asks');
  // Of two that end so soon the one that ends sooner may go, and not the other.
  await ends(own!.id, '30 minutes');
  assert.equal(await remove(next.id), 409);
  assert.equal(await remove(own!.id, next.key), 204);
  assert.equal(await remove(next.id, next.key), 409);

  const lasting = await make('lasting', { scope: 'full' }, next.key);
  await ends(lasting.id, '61 minutes');
  assert.equal(await remove(next.id, lasting.key), 204);
});

test('whoever asks to delete another partner’s key waits for nobody who holds it', async (t) => {
  const { ask, list, globex, store } = await aSystem(t);
  const [theirs] = await list(globex);
  await store.open().transaction(async (tx) => {
    const lock = 'SELECT FROM partners.api_keys WHERE key_id = $1 FOR UPDATE';
    assert.equal((await tx.query(lock, [theirs!.id])).length, 1);
    assert.equal((await ask('DELETE', `${path}/${theirs!.id}`)).status, 404);
  });
});

test('a key that was revoked makes and deletes nothing, while gateways still take it for good', async (t) => {
  const { ask, make, first, registry, owner } = await aSystem(t);
  const other = await make('other', { scope: 'read' });
  assert.equal((await ask('GET', path)).status, 200);
  await registry.revokeKey('acme' as PartnerId, first, { by: 'ada', why: 'it leaked' });
  const before = await owner.query('SELECT * FROM partners.api_keys ORDER BY created_at');
  assert.equal((await ask('GET', path)).status, 200, 'it is still let in');
  const making = await ask('POST', path, { body: { scope: 'full' }, key: 'mine for ever' });
  assert.deepEqual([making.status, making.headers['www-authenticate']], [401, 'Bearer']);
  const again = await ask('POST', path, { body: { scope: 'read' }, key: 'other' });
  assert.equal(again.status, 401, 'nor is shown what was made');
  assert.equal((await ask('DELETE', `${path}/${other.id}`)).status, 401);
  assert.deepEqual(
    await owner.query('SELECT * FROM partners.api_keys ORDER BY created_at'),
    before,
  );
});

test('a list that leaves out keys that expired says so, and shows the last to expire', async (t) => {
  const { ask, make, owner } = await aSystem(t);
  const good = await make('good', { scope: 'read' });
  const expired = (many: number, ago: string) =>
    owner.query(
      `INSERT INTO partners.api_keys (sha256, partner_id, prefix, expires_at, created_at)
       SELECT sha256(convert_to(n || $2, 'UTF8')), 'acme', $2, now() - $2::interval, now() - interval '9 days'
       FROM generate_series(1, $1::integer) AS n`,
      [many, ago],
    );
  const listed = async () => {
    const { json } = await ask('GET', path);
    const data = json['data'] as (Listed & { prefix: string })[];
    return { data, more: json['has_more'] };
  };
  await expired(98, '2 days');
  assert.deepEqual([(await listed()).data.length, (await listed()).more], [100, false]);
  await expired(1, '1 day');
  const { data, more } = await listed();
  assert.deepEqual([data.length, more], [100, true]);
  assert.deepEqual([data[1]!.id, data[2]!.prefix], [good.id, '1 day']);
});

test('only a key for everything makes and deletes, and only what is its partner’s', async (t) => {
  const { ask, make, list, globex } = await aSystem(t);
  const [reading, paying] = [await make('r', { scope: 'read' }), await make('p', { scope: 'pay' })];
  for (const { key } of [reading, paying]) {
    const making = await ask('POST', path, { as: key!, body: { scope: 'pay' }, key: 'x' });
    assert.deepEqual([making.status, making.json['code']], [403, 'insufficient_scope']);
    assert.equal((await ask('DELETE', `${path}/${reading.id}`, { as: key! })).status, 403);
  }
  assert.equal((await ask('GET', path, { as: paying.key! })).status, 403);
  for (const id of [reading.id, 'x', reading.id.toUpperCase(), `${reading.id}0`]) {
    assert.equal((await ask('DELETE', `${path}/${id}`, { as: globex })).status, 404);
  }
  assert.equal((await list(globex)).length, 1);
  // The same idempotency key of another partner is another key.
  assert.notEqual((await make('r', { scope: 'read' }, globex)).id, reading.id);
  // Keys share a read of the list, but each is told which one it is.
  const current = await Promise.all(
    [reading.key!, undefined].map(async (as) => (await list(as)).findIndex((each) => each.current)),
  );
  assert.deepEqual(current, [1, 0]);
});

test('what is asked of a new key is judged, and nothing is made that is wrong', async (t) => {
  const { ask, list } = await aSystem(t);
  const inYears = (years: number) => new Date(Date.now() + years * 366 * 86_400_000).toISOString();
  const wrong: [body: object, pointer: string][] = [
    [{}, '#/scope'],
    [{ scope: 'write' }, '#/scope'],
    [{ scope: 'read', name: '' }, '#/name'],
    [{ scope: 'read', name: 'x'.repeat(65) }, '#/name'],
    [{ scope: 'read', name: 'a\u0000b' }, '#/name'],
    [{ scope: 'read', name: '4242 4242 4242 4242' }, '#/name'],
    [{ scope: 'read', expires_at: 'tomorrow' }, '#/expires_at'],
    [{ scope: 'read', expires_at: '2030-02-30T00:00:00Z' }, '#/expires_at'],
    [{ scope: 'read', expires_at: '2026-01-01T00:00:00Z' }, '#/expires_at'],
    [{ scope: 'read', expires_at: inYears(6) }, '#/expires_at'],
    [{ scope: 'read', key: 'mine' }, '#/key'],
  ];
  for (const [body, pointer] of wrong) {
    const { status, json } = await ask('POST', path, { body, key: 'wrong' });
    const [error] = (json['errors'] ?? []) as { pointer: string }[];
    assert.deepEqual([status, error?.pointer], [400, pointer], JSON.stringify(body));
  }
  assert.equal((await ask('GET', `${path}?limit=1`)).status, 400);
  assert.equal((await list()).length, 1);
});

test('a partner has a bounded number of good keys, and makes a bounded number in a day', async (t) => {
  const { ask, make, list, owner } = await aSystem(t);
  const made: Made[] = [];
  for (let n = 1; n < apiKeysMax; n += 1) made.push(await make(`key ${n}`, { scope: 'read' }));
  const asked = { body: { scope: 'read' }, key: 'one more' };
  const full = await ask('POST', path, asked);
  assert.deepEqual([full.status, full.json['code']], [400, 'invalid_request']);
  await owner.query('UPDATE partners.api_keys SET expires_at = now() WHERE key_id = $1', [
    made[0]!.id,
  ]);
  assert.equal((await ask('POST', path, asked)).status, 201);
  const listed = await list();
  assert.equal(listed.length, apiKeysMax + 1);
  assert.equal(listed.at(-1)!.id, made[0]!.id, 'what expired is last');
  assert.equal((await ask('DELETE', `${path}/${made[1]!.id}`)).status, 204);

  // The trigger that counts looks at what is there already.
  for (let n = apiKeysMax; n < 200; n += 1) {
    await owner.query(
      `INSERT INTO partners.acts (act, partner_id, done_by) VALUES ('make-key', 'acme', 'partner acme')`,
    );
  }
  const often = await ask('POST', path, { ...asked, key: 'too often' });
  assert.deepEqual([often.status, often.json['code']], [429, 'rate_limited']);
  assert.ok(Number(often.headers['retry-after']) > 80_000);
  assert.equal((await ask('POST', path, asked)).status, 201, 'a retry of before');
  assert.equal((await ask('DELETE', `${path}/${made[2]!.id}`)).status, 204);
});
