import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { renderPosition } from '@triplock/contracts';
import { openEventFeed } from '@triplock/partners';
import { deriveId, type PartnerId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { admitByName, partialGateway } from '../test/gateway.ts';
import { problemOf } from '../test/route-edges.ts';
import { addEventRoutes } from './events.ts';
import { partnerRoutes } from './partner-routes.ts';

const acme = 'acme' as PartnerId;
const idOf = (n: number) => deriveId('test', `${n}`);
const bodyOf = (type: string, n: number) =>
  `{"type":"${type}","timestamp":"2026-01-02T03:04:05.678Z","sequence":${n},` +
  `"data":{"id":"${idOf(n)}","amount":${n}}}`;

/** The route over a feed of one test's own, with the rights that the gateway has. */
async function aFeed(t: TestContext) {
  const store = await createTestDatabase(t);
  const owner = store.open();
  for (const [n, type] of ['payment.succeeded', 'refund.failed', 'payment.failed'].entries()) {
    await owner.query(
      `INSERT INTO webhooks.deliveries (event_id, position, partner_id, txn_id, body)
       VALUES ($1, $2, 'acme', $1, $3)`,
      [idOf(n + 1), n + 1, bodyOf(type, n + 1)],
    );
  }
  const parts = partialGateway({ events: openEventFeed(store.open('triplock_gateway')) });
  const app = await createHttpServer({
    logger: parts.logger,
    admission: admitByName,
    routes: (server) => addEventRoutes(partnerRoutes(server), parts),
  });
  t.after(() => app.close());
  const ask = async (query = '', as = 'acme') => {
    const headers = { authorization: `Bearer ${as}` };
    const answer = await app.inject({ method: 'GET', url: `/v1/events${query}`, headers });
    const { statusCode: status, payload: text } = answer;
    return { status, text, headers: answer.headers, body: answer.json<Record<string, unknown>>() };
  };
  return { ask, owner };
}

const at = (position: number, partner = acme) => renderPosition(partner, BigInt(position));
const positionsIn = ({ body }: { body: Record<string, unknown> }) =>
  (body['data'] as { position: string }[]).map(({ position }) => position);

test('an event stands in the feed as its webhook tells it, byte for byte', async (t) => {
  const { ask } = await aFeed(t);
  const { status, text } = await ask('?limit=1');
  assert.equal(status, 200);
  const event = `{"id":"${idOf(1)}","position":"${at(1)}",${bodyOf('payment.succeeded', 1).slice(1)}`;
  assert.equal(text, `{"object":"list","data":[${event}],"next":"${at(1)}","has_more":true}`);
});

test('a partner reads on from where it was, of all or of what it asks for, and nobody else reads it', async (t) => {
  const { ask } = await aFeed(t);
  const whole = await ask();
  assert.deepEqual(positionsIn(whole), [at(1), at(2), at(3)]);
  assert.deepEqual([whole.body['next'], whole.body['has_more']], [at(3), false]);
  assert.deepEqual(positionsIn(await ask(`?after=${at(2)}`)), [at(3)]);
  const end = await ask(`?after=${at(3)}`);
  assert.deepEqual([positionsIn(end), end.body['next']], [[], at(3)]);
  assert.deepEqual(positionsIn(await ask('?object=payment')), [at(1), at(3)]);
  assert.deepEqual(positionsIn(await ask('?type=refund.failed')), [at(2)]);
  assert.deepEqual(positionsIn(await ask(`?object=${idOf(2)}`)), [at(2)]);
  const since = async (time: string) => positionsIn(await ask(`?since=${time}`));
  assert.deepEqual(await since('1970-01-01T00:00:00Z'), [at(1), at(2), at(3)]);
  assert.deepEqual(await since('2020-01-01T00:00:00%2B01:00'), []);
  const empty = await ask('?since=1969-01-01T00:00:00Z', 'globex');
  assert.equal((await ask(`?after=${String(empty.body['next'])}`, 'globex')).status, 200);
  const globex = await ask('', 'globex');
  assert.deepEqual([positionsIn(globex), globex.body['has_more']], [[], false]);
  // What is ahead of all there is was read on a server that is no more.
  const ahead = await ask(`?after=${at(9_000)}`);
  assert.deepEqual([positionsIn(ahead), ahead.body['next']], [[], at(9_000)]);
});

test('a position that a partner was never told, and a parameter that is none, is pointed at', async (t) => {
  const { ask } = await aFeed(t);
  const told = at(2);
  for (const [query, ...pointers] of [
    ['after=', '#/after'],
    ['after=2', '#/after'],
    [`after=3${told.slice(1)}`, '#/after'],
    [`after=${told.slice(0, -1)}`, '#/after'],
    [`after=${at(2, 'globex' as PartnerId)}`, '#/after'],
    [`after=0${told}`, '#/after'],
    [`after=${told}&since=2026-01-02T03:04:05Z`, '#/since'],
    ['since=yesterday', '#/since'],
    ['since=2026-02-30T00:00:00Z', '#/since'],
    ['type=payment', '#/type'],
    ['object=endpoint', '#/object'],
    ['limit=0&starting_after=7', '#/limit', '#/starting_after'],
  ]) {
    const refused = await ask(`?${query}`);
    assert.equal(refused.status, 400, query);
    assert.deepEqual(problemOf(refused), { code: 'invalid_request', pointers }, query);
  }
});

test('a position behind which events have left by age is gone, which says how to go on', async (t) => {
  const { ask, owner } = await aFeed(t);
  await owner.query(`UPDATE webhooks.deliveries SET state = 'delivered',
    finished_at = now() - interval '100 days' WHERE position = 2`);
  await owner.query(`SELECT webhooks.reap_deliveries('90 days', '90 days', 10)`);
  const gone = await ask(`?after=${at(1)}`);
  assert.deepEqual([gone.status, gone.body['code']], [410, 'position_expired']);
  assert.match(String(gone.body['detail']), /Leave `after` out/);
  assert.deepEqual(positionsIn(await ask(`?after=${at(2)}`)), [at(3)]);
  assert.deepEqual(positionsIn(await ask()), [at(3)]);
});
