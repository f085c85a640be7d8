import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { keyScopes, type KeyScope } from '@triplock/contracts';
import { openPostgresLedger } from '@triplock/ledger';
import { sealingKeys } from '@triplock/runtime';
import { aPayment, testSealingKeys } from '@triplock/testing';
import type { FastifyInstance } from 'fastify';
import { createHttpServer } from '../http/server.ts';
import { admitByName, openTestGateway } from '../test/gateway.ts';
import { addGatewayRoutes, describeGateway } from './gateway-routes.ts';
import { partnerRoutes } from './partner-routes.ts';

type Operation = { description: string; responses: Record<string, { headers?: object }> };

/** Every operation of the document, as a request: ids are ones that nobody has. */
async function operations() {
  const { paths } = JSON.parse(await describeGateway()) as {
    paths: Record<string, Record<string, Operation>>;
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([name, { description, responses }]) => {
      const url = path
        .replace('{kind}', 'payment')
        .replace('{date}', '2026-03-31')
        .replaceAll(/\{\w+\}/g, 'c2d6e1f4-0b7a-4c39-8e51-f60a9d2b7c83');
      const method = name.toUpperCase() as 'GET' | 'POST';
      return { method, path, url, description, responses };
    }),
  );
}

/** What may be done by whom, said once more and in another way than beside the routes. */
function isFor(scope: KeyScope, method: string, path: string): boolean {
  if (scope === 'full') return true;
  if (scope === 'read') return method === 'GET';
  const followed = /^\/v1\/(payments|refunds|captures|cancellations|disputes|keys|events)(\/|$)/;
  return followed.test(path) && (method === 'GET' || method === 'POST');
}

const actionKeys = sealingKeys.parse(testSealingKeys)!;

/** The whole gateway, of which only what stands before the stores is looked at. */
async function aGateway(t: TestContext, more: (app: FastifyInstance) => void = () => undefined) {
  const opened = await openTestGateway(t);
  const gateway = { ...opened.gateway, actionKeys };
  const app = await createHttpServer({
    logger: opened.gateway.logger,
    admission: admitByName,
    routes: (server) => {
      addGatewayRoutes(server, gateway);
      more(server);
    },
  });
  t.after(() => app.close());
  const ask = (
    scope: KeyScope,
    { method, url, body }: { method: string; url: string; body?: object },
  ) =>
    app.inject({
      method: method as 'POST',
      url,
      headers: {
        authorization: `Bearer acme.${scope}`,
        'idempotency-key': 'once',
        ...(method !== 'GET' && { 'content-type': 'application/json' }),
      },
      ...(method !== 'GET' && { payload: JSON.stringify(body ?? { unknown: true }) }),
    });
  return { ...opened, ask };
}

test('each route takes the keys that are for it, and refuses every other before it looks', async (t) => {
  const { ask } = await aGateway(t);
  for (const { method, path, url, description, responses } of await operations()) {
    const letIn = keyScopes.filter((scope) => isFor(scope, method, path));
    for (const scope of keyScopes) {
      const answer = await ask(scope, { method, url });
      const what = `${method} ${path} as ${scope}: ${answer.body}`;
      if (letIn.includes(scope)) {
        assert.notEqual(answer.statusCode, 403, what);
        continue;
      }
      const least = letIn.includes('read') ? 'read' : letIn.includes('pay') ? 'pay' : 'full';
      assert.equal(answer.statusCode, 403, what);
      const { code, detail } = answer.json<{ code: string; detail: string }>();
      assert.equal(code, 'insufficient_scope');
      assert.match(detail, new RegExp(`of scope \`${least}\`.*yours is of scope \`${scope}\``));
      assert.equal(
        answer.headers['www-authenticate'],
        `Bearer error="insufficient_scope", scope="${least}"`,
      );
    }
    // The document says the same.
    const limited = letIn.length < keyScopes.length;
    assert.equal('403' in responses, limited, `${method} ${path}`);
    const said = /API key of scope (.*)\.$/.exec(description)?.[1];
    const names = said?.split(' or ').map((each) => each.replaceAll('`', ''));
    assert.deepEqual(names?.sort(), limited ? letIn.toSorted() : undefined, `${method} ${path}`);
  }
});

test('what a key is not for claims nothing: the same request is accepted as the first of its key', async (t) => {
  const { ask, appended } = await aGateway(t);
  const payment = { method: 'POST', url: '/v1/payments', body: { amount: 100, currency: 'EUR' } };
  assert.equal((await ask('read', payment)).statusCode, 403);
  assert.equal(await appended(), 0n);
  const paid = await ask('pay', payment);
  assert.equal(paid.statusCode, 202);
  assert.equal(paid.headers['idempotency-replayed'], undefined);
  const { id } = paid.json<{ id: string }>();
  const read = await ask('read', { method: 'GET', url: `/v1/payments/${id}` });
  assert.equal(read.statusCode, 200);
  assert.equal(await appended(), 1n);
});

test('a key that only reads cannot act for a customer: it is shown neither secret nor URL', async (t) => {
  const { ask, database } = await aGateway(t);
  const writer = openPostgresLedger(database.open('triplock_ledger'));
  const payment = aPayment({ paymentMethod: 'pm_card_visa' });
  const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
  await writer.post([{ payment, traceparent }]);
  const { txnId } = payment;
  const way = {
    redirect_to_url: { url: 'https://bank.example/who?it=is' },
    client_secret: 'pi_1_secret_2',
  };
  const type = 'redirect_to_url';
  const sealed = actionKeys.seal(`action/${txnId}`, JSON.stringify({ type, ...way }));
  const action = { type, sealed: JSON.stringify(sealed) };
  await writer.awaitCustomer({ txnId, version: 1, withinMs: 60_000, traceparent, action });
  const { customer } = (await writer.find(txnId))!;
  const told = { type, expires_at: customer!.expiresAt.toISOString() };
  for (const scope of keyScopes) {
    const read = await ask(scope, { method: 'GET', url: `/v1/payments/${txnId}` });
    const { next_action } = read.json<{ next_action: object }>();
    assert.deepEqual(next_action, scope === 'read' ? told : { ...told, ...way }, scope);
  }
});

test('a route that says nothing of its scope is added nowhere, and is else for keys that are for everything', async (t) => {
  const { ask } = await aGateway(t, (server) => {
    server.get('/v1/unsaid', async (_request, reply) => reply.send(''));
    const adding = () =>
      // @ts-expect-error: it does not compile either.
      partnerRoutes(server).get('/v1/unscoped', { schema: {} }, async (_, reply) => reply.send(''));
    assert.throws(adding);
  });
  const unsaid = { method: 'GET', url: '/v1/unsaid' };
  const statuses = await Promise.all(
    keyScopes.map(async (scope) => (await ask(scope, unsaid)).statusCode),
  );
  assert.deepEqual(Object.fromEntries(keyScopes.map((scope, at) => [scope, statuses[at]])), {
    full: 200,
    read: 403,
    pay: 403,
  });
});
