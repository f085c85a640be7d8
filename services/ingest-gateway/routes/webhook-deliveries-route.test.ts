import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { deriveId } from '@triplock/payments';
import { problemOf, webhookEdge } from '../test/webhook-edge.ts';

const path = '/v1/webhook-deliveries';
const idOf = (n: number, partner = 'acme') => deriveId('test', partner, `${n}`);

async function withDeliveries(t: TestContext, counts: Readonly<Record<string, number>>) {
  const edge = await webhookEdge(t);
  const notifier = edge.store.open('triplock_notifier');
  for (const [partner, count] of Object.entries(counts)) {
    for (let n = 0; n < count; n += 1) {
      await notifier.query(
        `INSERT INTO deliveries (event_id, partner_id, txn_id, body)
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
    `UPDATE deliveries SET state = 'failed', finished_at = now(), attempts = 7,
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
