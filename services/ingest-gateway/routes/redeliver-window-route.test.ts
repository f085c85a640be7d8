import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { redeliveredMax } from '@triplock/contracts';
import { problemOf, webhookEdge, type Asked } from '../test/webhook-edge.ts';

const path = '/v1/webhook-deliveries/redeliver';
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000).toISOString();

/** So many delivered webhooks of acme, made a second apart, the last one a minute ago. */
async function withDelivered(t: TestContext, count: number) {
  const edge = await webhookEdge(t);
  await edge.owner.query(
    `INSERT INTO notifier.deliveries (event_id, partner_id, txn_id, body, state, finished_at, created_at)
     SELECT gen_random_uuid(), 'acme', gen_random_uuid(), '{"type":"payment.succeeded"}',
            'delivered', now(), now() - interval '1 minute' - n * interval '1 second'
     FROM generate_series(0, $1 - 1) AS n`,
    [count],
  );
  const states = async () => {
    const rows = await edge.owner.query<{ state: string; count: string }>(
      'SELECT state, count(*) FROM notifier.deliveries GROUP BY 1',
    );
    return Object.fromEntries(rows.map((row) => [row.state, Number(row.count)]));
  };
  const redeliver = (body: unknown, rest: Partial<Asked> = {}) =>
    edge.ask({ method: 'POST', path, body, key: 'k1', ...rest });
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
    ...{ object: 'webhook_redelivery', since: micro(body.since), until: micro(body.until) },
    ...{ status: 'delivered', deliveries: 3, has_more: false, next_since: null },
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
