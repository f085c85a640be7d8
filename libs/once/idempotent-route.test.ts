import assert from 'node:assert/strict';
import { after, describe, it, test, type TestContext } from 'node:test';
import { Problem } from '@triplock/contracts';
import { fingerprint } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import fastify, { type FastifyRequest } from 'fastify';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace } from '@triplock/testing';
import { idempotentRoute } from './idempotent-route.ts';
import { createOnceDatabase } from './test/once-database.ts';
import { aStep } from './test/once-under-test.ts';
import { once, openPostgresOnce, openRedisOnce, type OnceStore } from './index.ts';

const { database, store } = await createOnceDatabase({ after });

type Order = { what: string };

/** A server with one route that writes what it was asked to, and fails on request. */
function aServer(t: TestContext) {
  const { scope } = aStep();
  const app = fastify();
  t.after(() => app.close());
  app.setErrorHandler((error, request, reply) => {
    if (!(error instanceof Problem)) return reply.code(500).send();
    return reply.code(error.status).headers(error.headers).send(error.body(request.id));
  });
  let failing = false;
  const write = async (tx: Queryable, request: FastifyRequest<{ Body: Order }>) => {
    const { what } = request.body;
    await tx.query('INSERT INTO effects VALUES ($1, $2)', [scope, what]);
    if (failing) throw new Problem('unavailable', 'Try again.');
    return { status: 201, location: `/orders/${what}`, body: { what, at: 'ümläut ✓' } };
  };
  const caller = (request: FastifyRequest) => String(request.headers['x-caller'] ?? 'acme');
  const scopeOf = (request: FastifyRequest) => `${scope}/${caller(request)}`;
  const handler = idempotentRoute({ database, scopeOf, keepMs: 86_400_000 }, write);
  app.route<{ Body: Order }>({ method: ['POST', 'PUT'], url: '/orders', handler });
  const send = (
    to: { method: 'POST' | 'PUT'; url: string },
    what: string,
    headers: Record<string, string>,
  ) => app.inject({ ...to, headers, payload: { what } });
  const post = (what: string, headers: Record<string, string>) =>
    send({ method: 'POST', url: '/orders' }, what, headers);
  const effects = async () => {
    const sql = 'SELECT what FROM effects WHERE scope = $1 ORDER BY what';
    return (await database.query<{ what: string }>(sql, [scope])).map(({ what }) => what);
  };
  return { scope, send, post, effects, setFailing: (now: boolean) => (failing = now) };
}

const key = { 'idempotency-key': 'order-1001' };

describe('an idempotent route', () => {
  it('answers a retry with the same bytes and has the effect once', async (t) => {
    const { post, effects } = aServer(t);
    const first = await post('book', key);
    assert.equal(first.statusCode, 201);
    assert.equal(first.headers['idempotency-replayed'], undefined);
    for (const quoted of ['order-1001', '"order-1001"']) {
      const retry = await post('book', { 'idempotency-key': quoted });
      assert.equal(retry.statusCode, 201);
      assert.equal(retry.headers['idempotency-replayed'], 'true');
      assert.equal(retry.headers.location, '/orders/book');
      assert.ok(retry.rawPayload.equals(first.rawPayload));
    }
    assert.deepEqual(await effects(), ['book']);
  });

  it('ten at once have one effect and get one answer', async (t) => {
    const { post, effects } = aServer(t);
    const answers = await Promise.all(Array.from({ length: 10 }, () => post('book', key)));
    assert.deepEqual(new Set(answers.map(({ statusCode }) => statusCode)), new Set([201]));
    assert.equal(new Set(answers.map(({ payload }) => payload)).size, 1);
    const replayed = answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true');
    assert.equal(replayed.length, 9);
    assert.deepEqual(await effects(), ['book']);
  });

  it('refuses a missing key, a malformed one and one that belongs to another request', async (t) => {
    const { post, effects } = aServer(t);
    assert.equal((await post('book', {})).json<{ code: string }>().code, 'idempotency_key_missing');
    const malformed = await post('book', { 'idempotency-key': 'a, b' });
    assert.equal(malformed.json<{ code: string }>().code, 'idempotency_key_invalid');
    await post('book', key);
    const reused = await post('pen', key);
    assert.equal(reused.statusCode, 422);
    assert.deepEqual(await effects(), ['book']);
  });

  it('refuses a key that belongs to another method or another query', async (t) => {
    const { send, post, effects } = aServer(t);
    await post('book', key);
    for (const to of [
      { method: 'PUT', url: '/orders' },
      { method: 'POST', url: '/orders?draft=1' },
    ] as const) {
      const reused = await send(to, 'book', key);
      assert.equal(reused.json<{ code: string }>().code, 'idempotency_key_reused', to.url);
    }
    assert.deepEqual(await effects(), ['book']);
  });

  it('says when to come again while its key is at work outside of a transaction', async (t) => {
    const { scope, post, effects } = aServer(t);
    const asked = { method: 'POST', path: '/orders', body: { what: 'book' } };
    const fields = { key: 'order-1001', fingerprint: fingerprint(asked) };
    const step = { ...aStep(), scope: `${scope}/acme`, ...fields };
    await once(store, step, async () => {
      const answer = await post('book', key);
      assert.equal(answer.json<{ code: string }>().code, 'idempotency_key_in_use');
      const seconds = Number(answer.headers['retry-after']);
      assert.ok(seconds > 0 && seconds <= step.leaseMs / 1_000, `${seconds} s`);
    });
    assert.deepEqual(await effects(), []);
  });

  it('keeps nothing of a request that failed, so the same key can succeed', async (t) => {
    const { post, effects, setFailing } = aServer(t);
    setFailing(true);
    assert.equal((await post('book', key)).statusCode, 503);
    assert.deepEqual(await effects(), []);
    setFailing(false);
    const retry = await post('book', key);
    assert.equal(retry.statusCode, 201);
    assert.equal(retry.headers['idempotency-replayed'], undefined);
  });

  it('two callers with one key do not see each other', async (t) => {
    const { post, effects } = aServer(t);
    await post('book', { ...key, 'x-caller': 'acme' });
    const other = await post('pen', { ...key, 'x-caller': 'globex' });
    assert.equal(other.statusCode, 201);
    assert.deepEqual(await effects(), ['book', 'pen']);
  });
});

const logger = createLogger({ service: 'example', instance: 'example', level: 'silent' });

/** Opens a store, as a service would in its main.ts. */
const stores: Record<string, (t: TestContext) => Promise<OnceStore>> = {
  postgres: async () => openPostgresOnce(database),
  async redis(t) {
    const { url, namespace } = await createTestKeyspace(t);
    return closing(t, await openRedisOnce({ url, namespace, logger }));
  },
};

for (const [name, open] of Object.entries(stores)) {
  test(`a mail is sent once per order, remembered in ${name}`, async (t) => {
    const store = await open(t);
    const sent: string[] = [];
    const confirm = (orderId: string) => {
      const times = { leaseMs: 30_000, keepMs: 86_400_000 };
      const step = { scope: `mail-${name}`, key: orderId, fingerprint: orderId, ...times };
      return once(store, step, async ({ signal }) => {
        signal.throwIfAborted();
        sent.push(orderId);
        return { sentAs: sent.length };
      });
    };
    assert.deepEqual(await confirm('order-1'), { outcome: 'done', result: { sentAs: 1 } });
    assert.deepEqual(await confirm('order-1'), { outcome: 'replayed', result: { sentAs: 1 } });
    assert.deepEqual(sent, ['order-1']);
  });
}

function closing<Store extends { close(): Promise<void> }>(t: TestContext, store: Store): Store {
  t.after(() => store.close());
  return store;
}
