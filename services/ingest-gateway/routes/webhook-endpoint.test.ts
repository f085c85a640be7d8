import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  findMissingClaim,
  problemOf,
  webhookEdge,
  type HookAsked as Asked,
} from '../test/route-edges.ts';

const path = '/v1/webhook-endpoint';
const url = 'https://partner.example/hooks?token=a';
const set = (to: unknown, as = 'acme'): Asked => ({ method: 'PUT', path, body: { url: to }, as });
const rotate = (key: string): Asked => ({ method: 'POST', path: `${path}/secrets`, key });

test('an endpoint is made with a secret that is shown once, and changed without one', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  const none = await ask({ method: 'GET', path });
  assert.deepEqual([none.status, none.body['code']], [404, 'not_found']);

  const made = await ask(set(url));
  assert.equal(made.status, 201);
  assert.equal(made.headers['cache-control'], 'no-store');
  const { secret, updated_at: updatedAt, id, created_at: createdAt, ...rest } = made.body;
  assert.match(id as string, /^[0-9a-f-]{36}$/);
  assert.match(secret as string, /^whsec_/);
  assert.match(updatedAt as string, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, {
    object: 'webhook_endpoint',
    url,
    description: null,
    enabled_events: ['*'],
    status: 'pending',
    previous_secret_valid_until: null,
    failing_since: null,
    disabled_at: null,
    disabled_reason: null,
  });
  assert.partialDeepStrictEqual(await seenByNotifier(), { url, secrets: [secret] });

  const read = await ask({ method: 'GET', path });
  const shown = { id, ...rest, status: 'verified', created_at: createdAt, updated_at: updatedAt };
  assert.deepEqual([read.status, read.body], [200, shown]);

  const other = 'https://partner.example:8443/v2';
  const changed = await ask(set(other));
  assert.deepEqual([changed.status, 'secret' in changed.body], [200, false]);
  assert.partialDeepStrictEqual(await seenByNotifier(), { url: other, secrets: [secret] });
});

test('a partner sees whether its server has yet to say that it wants webhooks', async (t) => {
  const { ask, seenByNotifier, owner } = await webhookEdge(t);
  const status = async () => (await ask({ method: 'GET', path })).body['status'];
  assert.equal((await ask(set(url))).body['status'], 'pending');
  await seenByNotifier();
  assert.equal(await status(), 'verified');
  assert.equal((await ask(set(url))).body['status'], 'verified', 'it was set to the same');
  assert.equal((await ask(set(`${url}b`))).body['status'], 'pending');
  assert.equal(await status(), 'pending');
  const fail = `UPDATE partners.webhook_endpoints SET failing_since = now() - interval '1 day'`;
  await owner.query(fail);
  const { body } = await ask({ method: 'GET', path });
  assert.deepEqual([body['status'], body['disabled_reason']], ['pending', null]);
  assert.match(body['failing_since'] as string, /^\d{4}-.*Z$/);
  await owner.query('UPDATE partners.webhook_endpoints SET disabled_at = now()');
  assert.equal(await status(), 'disabled');
  const list = await ask({ method: 'GET', path: '/v1/webhook-endpoints' });
  assert.partialDeepStrictEqual(list.body, {
    data: [
      { status: 'disabled', disabled_reason: 'failing', failing_since: body['failing_since'] },
    ],
  });
  assert.partialDeepStrictEqual((await ask(set(url))).body, {
    failing_since: null,
    disabled_at: null,
    disabled_reason: null,
  });
});

test('a partner sees and changes its own endpoint only', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  await ask(set(url));
  assert.equal((await ask({ method: 'GET', path, as: 'globex' })).status, 404);
  assert.equal((await ask({ ...rotate('one'), as: 'globex' })).status, 404);
  await ask(set('https://globex.example/', 'globex'));
  assert.equal((await seenByNotifier())!.url, url);
  assert.equal((await seenByNotifier())!.secrets.length, 1);
});

test('after a rotation both secrets sign, and the one before them no longer', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  const made = await ask(set(url));
  const [first, second] = [await ask(rotate('one')), await ask({ ...rotate('two'), body: {} })];
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.equal(first.headers['cache-control'], 'no-store');
  assert.deepEqual(Object.keys(first.body), ['object', 'secret', 'previous_secret_valid_until']);
  const secrets = [second.body['secret'], first.body['secret']];
  assert.deepEqual((await seenByNotifier())!.secrets, secrets);
  assert.ok(!secrets.includes(made.body['secret']));
  const read = await ask({ method: 'GET', path });
  const until = second.body['previous_secret_valid_until'];
  assert.equal(read.body['previous_secret_valid_until'], until);
  assert.doesNotMatch(JSON.stringify(read.body), /whsec_/);
});

test('a rotation whose answer got lost is answered again, and throws out no secret', async (t) => {
  const { app, ask, seenByNotifier } = await webhookEdge(t);
  const made = await ask(set(url));
  const route = { method: 'POST', url: rotate('').path };
  const attempt = { path: route.url, body: {}, status: 201 };
  assert.deepEqual(await findMissingClaim(app, route, attempt), []);
  const { secrets } = (await seenByNotifier())!;
  assert.deepEqual([secrets.length, secrets[1]], [2, made.body['secret']]);
  for (const [key, code] of [
    [undefined, 'idempotency_key_missing'],
    ['', 'idempotency_key_invalid'],
  ] as const) {
    const refused = await ask({ ...rotate('one'), key });
    assert.deepEqual([refused.status, refused.body['code']], [400, code]);
  }
  assert.deepEqual((await seenByNotifier())!.secrets, secrets);
});

test('a URL that webhooks may not go to is refused, and nothing is written', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  for (const to of [
    'http://partner.example/',
    'ftp://partner.example/',
    'javascript:alert(1)',
    'https://user:password@partner.example/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://metadata.google.internal/',
    'https://localhost/',
    'https://[::1]/',
    'https://[::ffff:169.254.169.254]/',
    'https://[fd00::1]/',
    'https://[fe80::1]/',
    'https://partner.example:25/',
  ]) {
    const refused = await ask(set(to));
    assert.equal(refused.status, 400, to);
    assert.deepEqual(problemOf(refused), { code: 'invalid_request', pointers: ['#/url'] }, to);
    assert.doesNotMatch(JSON.stringify(refused.body), /user:password|169\.254/);
  }
  assert.equal(await seenByNotifier(), undefined);
});

test('a demo may send webhooks to its own machine', async (t) => {
  const { ask } = await webhookEdge(t, { targetPolicy: 'loopback-too' });
  assert.equal((await ask(set('http://127.0.0.1:8080/hooks'))).status, 201);
  assert.equal((await ask(set('http://192.168.0.1/'))).status, 400);
});

test('a body that is no endpoint is refused with a pointer to each field', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  for (const [body, pointers] of [
    [undefined, ['#']],
    [[], ['#']],
    [{}, ['#/url']],
    [{ url: null }, ['#/url']],
    [{ url: 'partner.example' }, ['#/url']],
    [{ url, secret: 'whsec_mine' }, ['#/secret']],
    [{ url: `${url}${'x'.repeat(2_000)}` }, ['#/url']],
  ] as const) {
    const refused = await ask({ method: 'PUT', path, body });
    assert.deepEqual(problemOf(refused), { code: 'invalid_request', pointers });
  }
  assert.equal(await seenByNotifier(), undefined);
});

test('a rotation takes no body, as a secret of your own choice would be', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  await ask(set(url));
  for (const body of [{ secret: 'whsec_mine' }, [], 'whsec_mine']) {
    assert.deepEqual(problemOf(await ask({ ...rotate('one'), body })).code, 'invalid_request');
  }
  assert.equal((await seenByNotifier())!.secrets.length, 1);
});

test('other methods get the list of those that there are', async (t) => {
  const { ask } = await webhookEdge(t);
  const refused = await ask({ method: 'POST', path });
  assert.deepEqual([refused.status, refused.body['code']], [405, 'method_not_allowed']);
  assert.equal(refused.headers['allow'], 'GET, HEAD, PUT');
});

const many = '/v1/webhook-endpoints';
const make = (key: string | undefined, body: unknown, as = 'acme'): Asked => ({
  method: 'POST',
  path: many,
  body,
  as,
  ...(key === undefined ? {} : { key }),
});
const idOf = ({ body }: { body: Record<string, unknown> }) => String(body['id']);

test('a partner has several endpoints, the oldest of which is the first', async (t) => {
  const { ask, seenByNotifier } = await webhookEdge(t);
  const first = await ask(set(url));
  const wanted = { url: 'https://two.example/', enabled_events: ['refund.failed'] };
  const made = await ask(make('two', { ...wanted, description: 'refunds' }));
  assert.equal(made.status, 201);
  assert.equal(made.headers['location'], `${many}/${idOf(made)}`);
  assert.equal(made.headers['cache-control'], 'no-store');
  assert.match(String(made.body['secret']), /^whsec_/);
  const rotated = await ask({ method: 'POST', path: `${many}/${idOf(made)}/secrets`, key: 'one' });
  assert.equal(rotated.status, 201);
  assert.equal((await seenByNotifier())!.secrets.length, 1, 'of the first nothing was rotated');

  const { secret, ...shown } = made.body;
  assert.ok(secret);
  const found = await ask({ method: 'GET', path: `${many}/${idOf(made)}` });
  assert.partialDeepStrictEqual(found.body, {
    ...wanted,
    description: 'refunds',
    created_at: shown['created_at'],
    status: 'verified',
  });
  const { body } = await ask({ method: 'GET', path: many });
  const ids = (body['data'] as { id: string }[]).map(({ id }) => id);
  assert.deepEqual([ids, body['has_more']], [[idOf(first), idOf(made)], false]);
  assert.doesNotMatch(JSON.stringify(body), /whsec_/);

  assert.equal((await ask({ method: 'DELETE', path: `${many}/${idOf(first)}` })).status, 204);
  assert.equal(idOf(await ask({ method: 'GET', path })), idOf(made));
  assert.equal((await ask({ method: 'DELETE', path: `${many}/${idOf(first)}` })).status, 404);
  assert.equal((await ask({ method: 'GET', path: `${many}/${idOf(first)}` })).status, 404);
});

test('an endpoint is made once per key, with the same bytes for a retry', async (t) => {
  const { app, ask } = await webhookEdge(t);
  const route = { method: 'POST', url: many };
  const [body, otherBody] = [{ url, description: 'a' }, { url }];
  const attempt = { path: many, body, otherBody, status: 201 };
  assert.deepEqual(await findMissingClaim(app, route, attempt), []);
  const { data } = (await ask({ method: 'GET', path: many })).body as { data: { id: string }[] };
  assert.equal(data.length, 1);
  const one = `${many}/${data[0]!.id}`;
  const secrets = { path: `${one}/secrets`, body: {}, status: 201 };
  assert.deepEqual(await findMissingClaim(app, { method: 'POST', url: secrets.path }, secrets), []);

  // What became of it since changes no byte of the answer, but for a secret that signs no more.
  const key = 'mine';
  const made = await ask(make(key, body));
  await ask({ method: 'PATCH', path: `${many}/${idOf(made)}`, body: { url: `${url}b` } });
  assert.deepEqual((await ask(make(key, body))).body, made.body);
  for (const rotation of ['one', 'two']) {
    await ask({ method: 'POST', path: `${many}/${idOf(made)}/secrets`, key: rotation });
  }
  const { secret, ...rest } = made.body;
  assert.ok(secret);
  assert.deepEqual((await ask(make(key, body))).body, rest);
  await ask({ method: 'DELETE', path: `${many}/${idOf(made)}` });
  const gone = await ask(make(key, body));
  assert.deepEqual([gone.status, gone.body['code']], [422, 'idempotency_key_reused']);
  assert.equal((await ask(make(key, body, 'globex'))).status, 201, 'a key is its partner’s');
});

test('a partner has sixteen endpoints at most, however many it asks for at once', async (t) => {
  const { ask, owner } = await webhookEdge(t);
  const made = await Promise.all(
    Array.from({ length: 24 }, (_, n) => ask(make(`k${n}`, { url: `https://h${n}.example` }))),
  );
  assert.equal(made.filter(({ status }) => status === 201).length, 16);
  assert.deepEqual(problemOf(made.find(({ status }) => status !== 201)!).code, 'invalid_request');
  assert.equal((await owner.query('SELECT FROM partners.webhook_endpoints')).length, 16);
  const one = made.find(({ status }) => status === 201)!;
  await ask({ method: 'DELETE', path: `${many}/${idOf(one)}` });
  assert.equal((await ask(make('again', { url }))).status, 201);
});

test('what is named of an endpoint is changed, and nothing else', async (t) => {
  const { ask, owner } = await webhookEdge(t);
  const made = await ask(make('one', { url, enabled_events: ['refund.failed'] }));
  const one = `${many}/${idOf(made)}`;
  const change = async (body: unknown, as = 'acme') =>
    ask({ method: 'PATCH', path: one, body, as });
  const { body } = await change({ description: 'mine' });
  assert.partialDeepStrictEqual(body, { url, enabled_events: ['refund.failed'] });
  assert.deepEqual([body['description'], body['updated_at']], ['mine', made.body['updated_at']]);
  assert.deepEqual((await change({ enabled_events: ['*'] })).body['enabled_events'], ['*']);
  await owner.query('UPDATE partners.webhook_endpoints SET disabled_at = now()');
  assert.equal((await change({ description: null })).body['status'], 'disabled');
  assert.partialDeepStrictEqual((await change({ url })).body, {
    status: 'pending',
    disabled_at: null,
  });
  for (const [wrong, pointer] of [
    [{}, '#'],
    [{ url: 'https://10.0.0.1/' }, '#/url'],
    [{ url: 'javascript:alert(1)' }, '#/url'],
    [{ enabled_events: [] }, '#/enabled_events'],
    [{ enabled_events: ['payment.made'] }, '#/enabled_events'],
    [{ description: '4242 4242 4242 4242' }, '#/description'],
    [{ description: 7 }, '#/description'],
    [{ secret: 'whsec_mine' }, '#/secret'],
  ] as const) {
    const refused = await change(wrong);
    assert.deepEqual(problemOf(refused), { code: 'invalid_request', pointers: [pointer] });
  }
  assert.equal((await change({ url: 'https://globex.example/' }, 'globex')).status, 404);
  assert.equal((await ask({ method: 'GET', path: one })).body['url'], url);
  const wrongId = await ask({ method: 'PATCH', path: `${many}/mine`, body: { url } });
  assert.equal(wrongId.status, 404);
});
