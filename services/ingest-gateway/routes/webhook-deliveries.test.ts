import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { redeliveredMax } from '@triplock/contracts';
import { deriveId } from '@triplock/payments';
import { eventually } from '@triplock/testing';
import { problemOf, webhookEdge, type HookAsked as Asked } from '../test/route-edges.ts';

const path = '/v1/webhook-deliveries';
const idOf = (n: number, partner = 'acme') => deriveId('test', partner, `${n}`);

async function withDeliveries(t: TestContext, counts: Readonly<Record<string, number>>) {
  const edge = await webhookEdge(t);
  const notifier = edge.store.open('triplock_notifier');
  for (const [partner, count] of Object.entries(counts)) {
    for (let n = 0; n < count; n += 1) {
      await notifier.query(
        `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body)
         VALUES ($1, $2, $1, '{"type":"payment.succeeded"}')`,
        [idOf(n, partner), partner],
      );
    }
  }
  const list = async (query = '', as = 'acme') => {
    const { status, body } = await edge.ask({ method: 'GET', path: `${path}${query}`, as });
    assert.equal(status, 200, JSON.stringify(body));
    const data = body['data'] as Record<string, unknown>[];
    return { data, ids: data.map(({ id }) => id), more: body['has_more'] };
  };
  return { ...edge, notifier, list };
}

test('a partner lists its own deliveries, the newest first, page by page', async (t) => {
  const { list } = await withDeliveries(t, { acme: 23, globex: 1 });
  const newest = Array.from({ length: 23 }, (_, n) => idOf(22 - n));
  const first = await list();
  assert.deepEqual([first.ids, first.more], [newest.slice(0, 20), true]);
  const second = await list(`?starting_after=${newest[19]}`);
  assert.deepEqual([second.ids, second.more], [newest.slice(20), false]);
  assert.equal((await list('?limit=23')).more, false);
  assert.equal((await list('?limit=22')).more, true);
  assert.deepEqual((await list(`?txn_id=${newest[7]}`)).ids, [newest[7]]);
  assert.deepEqual((await list(`?txn_id=${newest[7]}`, 'globex')).ids, []);
  assert.deepEqual((await list('', 'globex')).ids, [idOf(0, 'globex')]);
  const { created_at: createdAt, next_attempt_at: nextAt, ...rest } = first.data[0]!;
  assert.match(`${createdAt as string} ${nextAt as string}`, /^\S+T\S+\.\d{3}Z \S+T\S+\.\d{3}Z$/);
  assert.deepEqual(rest, {
    id: newest[0],
    object: 'webhook_delivery',
    webhook_id: newest[0],
    endpoint: null,
    type: 'payment.succeeded',
    txn_id: newest[0],
    status: 'pending',
    attempts: 0,
    last_status: null,
    last_error: null,
    delivered_at: null,
  });
});

test('deliveries are found by what became of them, and are due again once asked for', async (t) => {
  const { ask, list, notifier } = await withDeliveries(t, { acme: 3 });
  await notifier.query(
    `UPDATE webhooks.deliveries SET state = 'failed', finished_at = now(), attempts = 7,
       last_status = 500, last_error = 'answered 500', last_outcome = 'refused'
     WHERE event_id = $1`,
    [idOf(1)],
  );
  const failed = await list('?status=failed');
  assert.deepEqual(failed.ids, [idOf(1)]);
  const { last_status: status, last_error: error, next_attempt_at: next } = failed.data[0]!;
  assert.deepEqual([status, error, next], [500, 'refused', null]);
  for (const body of [undefined, {}]) {
    const again = await ask({ method: 'POST', path: `${path}/${idOf(1)}/redeliver`, body });
    assert.equal(again.status, 202);
    const { id, status, attempts } = again.body;
    assert.deepEqual([id, status, attempts], [idOf(1), 'pending', 7]);
  }
  assert.deepEqual((await list('?status=failed')).ids, []);
});

test("another partner's delivery is not there to be sent again", async (t) => {
  const { ask, list } = await withDeliveries(t, { acme: 1 });
  for (const id of [idOf(0), idOf(9), 'no-id', "'; DROP TABLE deliveries; --", '%00']) {
    const to = `${path}/${encodeURIComponent(id)}/redeliver`;
    const refused = await ask({ method: 'POST', path: to, as: 'globex' });
    assert.deepEqual([refused.status, refused.body['code']], [404, 'not_found'], id);
  }
  assert.equal((await list()).ids.length, 1);
});

test('a parameter that is unknown, repeated or malformed is pointed at', async (t) => {
  const { ask } = await withDeliveries(t, { acme: 1, globex: 1 });
  for (const [query, pointer] of [
    ['limit=0', '#/limit'],
    ['limit=101', '#/limit'],
    ['limit=1&limit=2', '#/limit'],
    ['status=done', '#/status'],
    ['txn_id=1', '#/txn_id'],
    ['starting_after=7', '#/starting_after'],
    [`starting_after=${idOf(7)}`, '#/starting_after'],
    [`starting_after=${idOf(0, 'globex')}`, '#/starting_after'],
    ['offset=20', '#/offset'],
  ]) {
    const refused = await ask({ method: 'GET', path: `${path}?${query}` });
    assert.equal(refused.status, 400, query);
    const problem = { code: 'invalid_request', pointers: [pointer] };
    assert.deepEqual(problemOf(refused), problem, query);
  }
});

test('asking for a webhook again takes no body and no other method', async (t) => {
  const { ask, list } = await withDeliveries(t, { acme: 1 });
  const to = `${path}/${idOf(0)}/redeliver`;
  const refused = await ask({ method: 'POST', path: to, body: { url: 'https://other.example/' } });
  assert.deepEqual([refused.status, refused.body['code']], [400, 'invalid_request']);
  const wrong = await ask({ method: 'GET', path: to });
  assert.deepEqual([wrong.status, wrong.headers['allow']], [405, 'POST']);
  assert.equal((await list()).data[0]!['attempts'], 0);
});

const redeliverPath = `${path}/redeliver`;
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000).toISOString();

/** So many delivered webhooks of acme, made a second apart, the last one a minute ago. */
async function withDelivered(t: TestContext, count: number) {
  const edge = await webhookEdge(t);
  await edge.owner.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, finished_at, created_at)
     SELECT gen_random_uuid(), 'acme', gen_random_uuid(), '{"type":"payment.succeeded"}',
            'delivered', now(), now() - interval '1 minute' - n * interval '1 second'
     FROM generate_series(0, $1 - 1) AS n`,
    [count],
  );
  const states = async () => {
    const rows = await edge.owner.query<{ state: string; count: string }>(
      'SELECT state, count(*) FROM webhooks.deliveries GROUP BY 1',
    );
    return Object.fromEntries(rows.map((row) => [row.state, Number(row.count)]));
  };
  const redeliver = (body: unknown, rest: Partial<Asked> = {}) =>
    edge.ask({ method: 'POST', path: redeliverPath, body, key: 'k1', ...rest });
  return { ...edge, states, redeliver };
}

test('a window is due again once, and a retry gets the answer of then', async (t) => {
  const { redeliver, states } = await withDelivered(t, 3);
  const body = { since: ago(600), until: ago(0), status: 'delivered' };
  const done = await redeliver(body);
  assert.equal(done.status, 202, JSON.stringify(done.body));
  assert.equal(done.headers['idempotency-replayed'], undefined);
  const micro = (time: string) => time.replace('Z', '000Z');
  assert.deepEqual(done.body, {
    object: 'webhook_redelivery',
    since: micro(body.since),
    until: micro(body.until),
    status: 'delivered',
    deliveries: 3,
    has_more: false,
    next_since: null,
  });
  assert.deepEqual(await states(), { pending: 3 });
  const again = await redeliver(body);
  assert.deepEqual([again.status, again.headers['idempotency-replayed']], [202, 'true']);
  assert.deepEqual(again.body, done.body);
  const other = await redeliver({ ...body, status: 'failed' });
  assert.deepEqual([other.status, other.body['code']], [422, 'idempotency_key_reused']);
  // The same key of another partner is another key, and its window has nothing in it.
  assert.equal((await redeliver(body, { as: 'globex' })).body['deliveries'], 0);
});

test('a window with more than one request takes says where to go on', async (t) => {
  const { redeliver, states } = await withDelivered(t, redeliveredMax + 2);
  const first = await redeliver({ since: ago(7_200) });
  assert.deepEqual([first.body['deliveries'], first.body['has_more']], [redeliveredMax, true]);
  const since = first.body['next_since'];
  const second = await redeliver({ since }, { key: 'k2' });
  assert.deepEqual([second.body['deliveries'], second.body['has_more']], [2, false]);
  assert.deepEqual(await states(), { pending: redeliveredMax + 2 });
});

test('what is wrong with a request is pointed at, and its key stays unused', async (t) => {
  const { redeliver, states } = await withDelivered(t, 1);
  const day = 86_400;
  for (const [body, ...pointers] of [
    [undefined, '#'],
    [{}, '#/since'],
    [{ since: 'yesterday' }, '#/since'],
    [{ since: '2026-02-30T00:00:00Z' }, '#/since'],
    [{ since: ago(600), state: 'failed' }, '#/state'],
    [{ since: ago(600), status: 'lost' }, '#/status'],
    [{ since: ago(600), until: ago(600.001) }, '#/until'],
    [{ since: ago(-600) }, '#/since'],
    [{ since: ago(32 * day) }, '#/since'],
    [{ since: ago(62 * day), until: ago(30 * day) }, '#/since'],
  ] as const) {
    const refused = await redeliver(body);
    assert.equal(refused.status, 400, JSON.stringify(body));
    assert.deepEqual(
      problemOf(refused),
      { code: 'invalid_request', pointers },
      JSON.stringify(body),
    );
  }
  for (const [key, code] of [
    [undefined, 'idempotency_key_missing'],
    ['', 'idempotency_key_invalid'],
  ] as const) {
    const refused = await redeliver({ since: ago(600) }, { key });
    assert.deepEqual([refused.status, refused.body['code']], [400, code]);
  }
  assert.deepEqual(await states(), { delivered: 1 });
  assert.equal((await redeliver({ since: ago(600) })).status, 202);
});

test('a test says what came back, and goes to no server that has not said that it wants webhooks', async (t) => {
  const { ask, owner, seenByNotifier } = await webhookEdge(t);
  const url = 'https://partner.example/hooks';
  const made = await ask({ method: 'PUT', path: '/v1/webhook-endpoint', body: { url } });
  const one = `/v1/webhook-endpoints/${String(made.body['id'])}`;
  assert.equal((await ask({ method: 'DELETE', path: one, as: 'globex' })).status, 404);
  const testing = (as = 'acme') => ask({ method: 'POST', path: `${one}/test`, as });
  const refused = await testing();
  assert.deepEqual([refused.status, refused.body['code']], [409, 'webhook_endpoint_not_verified']);
  await seenByNotifier();
  assert.equal((await testing('globex')).status, 404);
  const answered = testing();
  const answerSql = `UPDATE partners.endpoint_tests
    SET answered_at = now(), outcome = 'refused', status = 503, took_ms = 12 RETURNING test_id`;
  const [{ test_id: testId }] = await eventually(async () => {
    const rows = await owner.query<{ test_id: string }>(answerSql);
    return rows.length > 0 && (rows as [{ test_id: string }]);
  });
  const { status, body } = await answered;
  assert.deepEqual([status, body['webhook_id']], [200, testId]);
  assert.partialDeepStrictEqual(body, { outcome: 'refused', status: 503, took_ms: 12 });
  const soon = await testing();
  assert.deepEqual([soon.status, soon.headers['retry-after']], [429, '10']);
  const withBody = await ask({ method: 'POST', path: `${one}/test`, body: { url } });
  assert.equal(withBody.status, 400);
});

test('who has set endpoints too often within a day is told when there is room again', async (t) => {
  const { ask, owner } = await webhookEdge(t);
  await owner.query(`INSERT INTO partners.acts (act, partner_id, done_by, done_at)
    SELECT 'set-endpoint', 'acme', 'partner acme', now() - interval '23 hours'
    FROM generate_series(1, 200)`);
  const url = 'https://partner.example/hooks';
  const make = (as: string) =>
    ask({ method: 'PUT', path: '/v1/webhook-endpoint', body: { url }, as });
  const refused = await make('acme');
  assert.deepEqual([refused.status, refused.body['code']], [429, 'rate_limited']);
  const seconds = Number(refused.headers['retry-after']);
  assert.ok(seconds > 3_000 && seconds <= 3_600, `${seconds}`);
  assert.equal((await make('globex')).status, 201);
});
