import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { transactionContracts } from '@triplock/contracts';
import { openWebhookDeliveries } from '@triplock/partners';
import { transactionKinds, type TransactionKind } from '@triplock/payments';
import type { FastifyInstance } from 'fastify';
import { addGatewayRoutes } from './gateway-routes.ts';
import { routesOfKinds } from './kinds.ts';
import { createHttpServer } from '../http/server.ts';
import { admitByName, openTestGateway } from '../test/gateway.ts';
import {
  findMissingClaim,
  listMutatingRoutes,
  type Attempt,
  type MutatingRoute,
} from '../test/route-edges.ts';

/** Routes whose repetition does no harm, and why; everything else has to claim. */
const harmless: Readonly<Record<string, string>> = {
  'PUT /v1/webhook-endpoint': 'the same URL again is the same endpoint',
  'PATCH /v1/webhook-endpoints/:id': 'the same change again is the same endpoint',
  'DELETE /v1/api-keys/:id': 'what is deleted is not there to be deleted',
  'DELETE /v1/webhook-endpoints/:id': 'what is deleted is not there to be deleted',
  'POST /v1/webhook-endpoints/:id/test': 'another test, of which there is one in ten seconds',
  'POST /v1/webhook-deliveries/:id/redeliver':
    'sends the same webhook again, under the webhook-id that receivers know',
};

/** Routes that know their keys by themselves, and the test that tries them as those here. */
const triedElsewhere: Readonly<Record<string, string>> = {
  'POST /v1/api-keys': 'api-keys.test.ts',
  'POST /v1/webhook-endpoint/secrets': 'webhook-endpoint.test.ts',
  'POST /v1/webhook-endpoints': 'webhook-endpoint.test.ts',
  'POST /v1/webhook-endpoints/:id/secrets': 'webhook-endpoint.test.ts',
};

/** How a route is tried, and what there must be of its effects after four requests. */
type Trial = Attempt & { effects: { records: bigint; redeliveries: bigint } };

const oneRecord = { records: 1n, redeliveries: 0n };

/** How the route is tried by which a transaction of a kind is made: by the contract's examples. */
function trialOf(kind: TransactionKind): [route: string, trial: (paymentId: string) => Trial] {
  const { path } = routesOfKinds[kind].create;
  const [body, otherBody] = transactionContracts[kind].examples;
  const trial = { body, otherBody, effects: oneRecord };
  return [`POST ${path}`, (id) => ({ path: path.replace(':id', id), ...trial })];
}

/** How each of the others is tried. A route that is new needs a line here, or one above. */
const trials: Readonly<Record<string, (paymentId: string) => Trial>> = {
  ...Object.fromEntries(transactionKinds.map(trialOf)),
  'POST /v1/webhook-deliveries/redeliver': () => ({
    path: '/v1/webhook-deliveries/redeliver',
    body: { since: new Date(Date.now() - 60_000).toISOString() },
    otherBody: { since: new Date(Date.now() - 120_000).toISOString() },
    effects: { records: 0n, redeliveries: 1n },
  }),
};

const nameOf = ({ method, url }: MutatingRoute) => `${method} ${url}`;

/** The gateway's routes and more, on real stores, and the list of those that mutate. */
async function aGateway(t: TestContext, more: (app: FastifyInstance) => void = () => undefined) {
  const { gateway, database, appended } = await openTestGateway(t);
  const deliveries = openWebhookDeliveries(database.open('triplock_gateway'));
  const owner = database.open();
  let routes: MutatingRoute[] = [];
  const app = await createHttpServer({
    logger: gateway.logger,
    admission: admitByName,
    routes: (server) => {
      routes = listMutatingRoutes(server);
      // Other routes about webhooks and settlements are only looked at.
      addGatewayRoutes(server, { ...gateway, deliveries });
      more(server);
    },
  });
  t.after(() => app.close());
  const effects = async () => {
    const count = 'SELECT count(*) FROM webhooks.redelivery_acts';
    const [row] = await owner.query<{ count: string }>(count);
    return { records: await appended(), redeliveries: BigInt(row!.count) };
  };
  return { app, routes, effects };
}

async function aPaymentOn(app: FastifyInstance): Promise<string> {
  const { payload } = await app.inject({
    method: 'POST',
    url: '/v1/payments',
    headers: { authorization: 'Bearer acme', 'idempotency-key': 'to be refunded' },
    payload: { amount: 100, currency: 'EUR' },
  });
  return (JSON.parse(payload) as { id: string }).id;
}

test('every mutating route claims its key before it takes effect, or says why it need not', async (t) => {
  const { app, routes, effects } = await aGateway(t);
  const names = routes.map(nameOf);
  const known = [harmless, triedElsewhere, trials].flatMap((each) => Object.keys(each));
  assert.deepEqual(names.sort(), known.sort());
  const id = await aPaymentOn(app);
  for (const route of routes) {
    const trial = trials[nameOf(route)]?.(id);
    if (trial === undefined) continue;
    const before = await effects();
    assert.deepEqual(await findMissingClaim(app, route, trial), [], nameOf(route));
    const after = await effects();
    const made = {
      records: after.records - before.records,
      redeliveries: after.redeliveries - before.redeliveries,
    };
    assert.deepEqual(made, trial.effects, `${nameOf(route)}: effects of four requests`);
  }
});

test('a route that takes effect without a claim is found', async (t) => {
  let effects = 0;
  const { app, routes } = await aGateway(t, (server) => {
    server.post('/v1/unguarded', async (_request, reply) => {
      effects += 1;
      return reply.code(202).type('application/json').send(`{"effect":${effects}}`);
    });
  });
  const unguarded = routes.find((route) => route.url === '/v1/unguarded');
  assert.ok(unguarded, 'the list has what was added');
  assert.ok(
    !Object.hasOwn(harmless, nameOf(unguarded)) && !Object.hasOwn(trials, nameOf(unguarded)),
  );
  const attempt = { path: '/v1/unguarded', body: { amount: 1 }, otherBody: { amount: 2 } };
  assert.deepEqual(await findMissingClaim(app, unguarded, attempt), [
    'takes effect without a key (202)',
    'does not mark a replay as one (202)',
    'gives a retry other bytes',
    'takes a used key for another request (202)',
  ]);
});
