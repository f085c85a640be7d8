import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { transactionContracts } from '@triplock/contracts';
import { openPostgresLedger } from '@triplock/ledger';
import {
  openEventFeed,
  openPartnerKeys,
  openSettlements,
  openWebhookDeliveries,
  openWebhookEndpoints,
  parseWebhookKeys,
} from '@triplock/partners';
import {
  deriveDisputeId,
  deriveId,
  isFollowUp,
  transactionKinds,
  type PartnerId,
  type TransactionKind,
} from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import { traceparentFrom } from '@triplock/runtime';
import { aPayment, testWebhookKeys } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { admitByName, apiKeyOf, openTestGateway } from '../test/gateway.ts';
import { addGatewayRoutes, describeGateway } from './gateway-routes.ts';
import { routesOfKinds } from './kinds.ts';

/** How a route is asked, and what its owner and another partner get under the same URL and key. */
type Scope = {
  /** Where it is not the template with the id of acme's payment. */
  path?: (owned: Readonly<Record<string, string>>) => string;
  /** As acme sends it; globex sends its own name where acme's stands. */
  body?: object;
  owner: number;
  stranger: number;
};

const day = '2026-03-31';
const gross = 4_242_424_242;
const decimal = '42424242.42';
const reference = 'known-to-acme-alone';
const endpoint = 'https://acme.example/hooks';

const ofEndpoint = (rest = '') => {
  return ({ webhook_endpoint: id }: Readonly<Record<string, string>>) =>
    `/v1/webhook-endpoints/${id}${rest}`;
};

/** One of a kind is made and read by its id; what follows acme's payment is nobody else's to do. */
function scopesOf(kind: TransactionKind): [route: string, scope: Scope][] {
  const { create, read } = routesOfKinds[kind];
  const { fields, examples } = transactionContracts[kind];
  const body = { ...examples[0], ...('reference' in fields && { reference }) };
  const documented = (path: string) => path.replace(':id', '{id}');
  const path = (owned: Readonly<Record<string, string>>) => read.path.replace(':id', owned[kind]!);
  const stranger = isFollowUp(kind) ? 404 : 202;
  return [
    [`POST ${documented(create.path)}`, { body, owner: 202, stranger }],
    [`GET ${documented(read.path)}`, { path, owner: 200, stranger: 404 }],
  ];
}

/**
 * Every route of the OpenAPI document, in the order in which acme asks: what it makes, it reads. A
 * route that is new needs a line here.
 */
const scopes: Readonly<Record<string, Scope>> = {
  ...Object.fromEntries(transactionKinds.flatMap(scopesOf)),
  'POST /v1/api-keys': { body: { scope: 'read' }, owner: 201, stranger: 201 },
  'GET /v1/api-keys': { owner: 200, stranger: 200 },
  'DELETE /v1/api-keys/{id}': {
    path: ({ disposableKey }) => `/v1/api-keys/${disposableKey}`,
    owner: 204,
    stranger: 404,
  },
  'GET /v1/payments': { owner: 200, stranger: 200 },
  'GET /v1/keys/{kind}/{key}': {
    path: () => '/v1/keys/payment/the%20same',
    owner: 200,
    stranger: 200,
  },
  'GET /v1/payments/{id}/refunds': { owner: 200, stranger: 404 },
  'GET /v1/disputes': { owner: 200, stranger: 200 },
  'GET /v1/disputes/{id}': {
    path: ({ dispute }) => `/v1/disputes/${dispute}`,
    owner: 200,
    stranger: 404,
  },
  'GET /v1/settlements': { path: () => `/v1/settlements?date=${day}`, owner: 200, stranger: 200 },
  'GET /v1/settlements/{date}.csv': {
    path: () => `/v1/settlements/${day}.csv`,
    owner: 200,
    stranger: 200,
  },
  'GET /v1/settlements/{date}.xml': {
    path: () => `/v1/settlements/${day}.xml`,
    owner: 200,
    stranger: 404,
  },
  'GET /v1/balance': { owner: 200, stranger: 200 },
  'GET /v1/balance/entries': { owner: 200, stranger: 200 },
  'GET /v1/events': { owner: 200, stranger: 200 },
  // acme has one already, which is deleted in the end.
  'PUT /v1/webhook-endpoint': { body: { url: endpoint }, owner: 200, stranger: 201 },
  'GET /v1/webhook-endpoint': { owner: 200, stranger: 200 },
  'POST /v1/webhook-endpoint/secrets': { body: {}, owner: 201, stranger: 201 },
  'POST /v1/webhook-endpoints': { body: { url: endpoint }, owner: 201, stranger: 201 },
  'GET /v1/webhook-endpoints': { owner: 200, stranger: 200 },
  'GET /v1/webhook-endpoints/{id}': { path: ofEndpoint(), owner: 200, stranger: 404 },
  'PATCH /v1/webhook-endpoints/{id}': {
    path: ofEndpoint(),
    body: { url: endpoint },
    owner: 200,
    stranger: 404,
  },
  'POST /v1/webhook-endpoints/{id}/secrets': {
    path: ofEndpoint('/secrets'),
    body: {},
    owner: 201,
    stranger: 404,
  },
  // Its server has not said that it wants webhooks.
  'POST /v1/webhook-endpoints/{id}/test': {
    path: ofEndpoint('/test'),
    owner: 409,
    stranger: 404,
  },
  'DELETE /v1/webhook-endpoints/{id}': {
    path: ({ disposable }) => `/v1/webhook-endpoints/${disposable}`,
    owner: 204,
    stranger: 404,
  },
  'GET /v1/webhook-deliveries': { owner: 200, stranger: 200 },
  'POST /v1/webhook-deliveries/{id}/redeliver': {
    path: ({ delivery }) => `/v1/webhook-deliveries/${delivery}/redeliver`,
    owner: 202,
    stranger: 404,
  },
  'POST /v1/webhook-deliveries/redeliver': {
    body: { since: new Date(Date.now() - 60_000).toISOString() },
    owner: 202,
    stranger: 202,
  },
};

type Asked = { partner?: string; body?: object | undefined };

/** The whole gateway on real stores, with what partners do not make themselves. */
async function aGateway(t: TestContext) {
  const opened = await openTestGateway(t);
  const database = opened.database.open('triplock_gateway');
  const owner = opened.database.open();
  const delivery = deriveId('test', 'acme', 'delivery');
  const disposable = deriveId('test', 'acme', 'disposable');
  const dispute = await disputeOf('acme' as PartnerId, opened.database.open('triplock_ledger'));
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme'), ('globex')`);
  const disposableKey = deriveId('test', 'acme', 'disposable key');
  for (const [partner, id] of [
    ['acme', apiKeyOf('acme')],
    ['globex', apiKeyOf('globex')],
    ['acme', disposableKey],
  ]) {
    await owner.query(
      `INSERT INTO partners.api_keys (sha256, partner_id, key_id) VALUES (sha256($2), $1, $3)`,
      [partner, Buffer.from(id!), id],
    );
  }
  await owner.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body)
     VALUES ($1, 'acme', $1, '{"type":"payment.succeeded"}')`,
    [delivery],
  );
  await owner.query(
    `INSERT INTO partners.webhook_endpoints (endpoint_id, partner_id, url, host, secrets)
     VALUES ($1, 'acme', 'https://acme.example/', 'acme.example',
             '[{"id": "1", "key": "one", "box": ""}]')`,
    [disposable],
  );
  await owner.query(
    `INSERT INTO partners.settlement_batches
       (partner_id, day, currency, gross, refunds, payments, refund_count)
     VALUES ('acme', $1, 'EUR', $2, 0, 1, 0)`,
    [day, gross],
  );
  await owner.query(
    `INSERT INTO partners.settlement_lines (partner_id, day, txn_id, kind, currency, amount, settled_at)
     VALUES ('acme', $1::date, gen_random_uuid(), 'payment', 'EUR', $2, $1::date)`,
    [day, gross],
  );
  await owner.query(`
    INSERT INTO partners.settlement_sums
    SELECT partner_id, day, currency, kind, day, 1, amount FROM partners.settlement_lines`);
  await owner.query('UPDATE partners.settlement_calendar SET closed_through = $1', [day]);
  const app = await createHttpServer({
    logger: opened.gateway.logger,
    admission: admitByName,
    routes: (server) =>
      addGatewayRoutes(server, {
        ...opened.gateway,
        settlements: openSettlements(database),
        events: openEventFeed(database),
        endpoints: openWebhookEndpoints(database, parseWebhookKeys(testWebhookKeys)),
        apiKeys: openPartnerKeys(database, parseWebhookKeys(testWebhookKeys)),
        deliveries: openWebhookDeliveries(database),
        targetPolicy: 'public',
      }),
  });
  t.after(() => app.close());
  const ask = (request: string, { partner, body }: Asked = {}) => {
    const [method, url] = request.split(' ') as [
      'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
      string,
    ];
    const headers = {
      ...(partner !== undefined && { authorization: `Bearer ${partner}` }),
      ...(method === 'POST' && { 'idempotency-key': 'the same' }),
      ...(body && { 'content-type': 'application/json' }),
    };
    const payload = body && JSON.stringify(body);
    return app.inject({ method, url, headers, ...(payload && { payload }) });
  };
  return { ...opened, ask, owner, delivery, disposable, disposableKey, dispute };
}

/** A card payment of a partner, which its customer disputes. */
async function disputeOf(partner: PartnerId, database: Database): Promise<string> {
  const ledger = openPostgresLedger(database);
  const payment = aPayment({ partner, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  const traceparent = traceparentFrom(undefined);
  const charged = { provider: 'stripe', intentId: 'pi_1' } as const;
  const paid = { result: { state: 'succeeded' as const }, settledAt: new Date() };
  await ledger.post([{ payment, traceparent, provider: 'stripe' }]);
  await ledger.settle({
    txnId,
    version: 1,
    traceparent,
    chargeId: 'ch_1',
    intent: charged,
    ...paid,
  });
  const report = { ...charged, disputeId: 'du_1', amount: 1n, currency: 'EUR', reason: 'general' };
  assert.equal((await ledger.noteDispute(report)).outcome, 'disputed');
  return deriveDisputeId(report);
}

/** Everything that the database has of one partner, table by table. */
async function rowsOf(owner: Database, partner: string): Promise<Record<string, string>> {
  const tables = await owner.query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name
     FROM information_schema.columns
     JOIN information_schema.tables USING (table_schema, table_name)
     WHERE column_name = 'partner_id' AND table_type = 'BASE TABLE'`,
  );
  const rows: Record<string, string> = {};
  for (const { name } of tables) {
    const [found] = await owner.query<{ whole: string | null }>(
      `SELECT string_agg(each::text, ' ' ORDER BY each::text) AS whole
       FROM ${name} AS each WHERE partner_id = $1`,
      [partner],
    );
    rows[name] = found?.whole ?? '';
  }
  return rows;
}

/** The routes of the document, as `METHOD /path/{id}`. */
async function documentedRoutes(): Promise<string[]> {
  const { paths } = JSON.parse(await describeGateway()) as { paths: Record<string, object> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
}

test('no route shows a partner, or lets it change, what is another’s, and none answers without a key', async (t) => {
  assert.deepEqual((await documentedRoutes()).sort(), Object.keys(scopes).sort());
  const { ask, owner, delivery, disposable, disposableKey, dispute, catchUp } = await aGateway(t);
  const owned: Record<string, string> = { delivery, disposable, disposableKey, dispute };
  const requests: { route: string; request: string; body: object | undefined }[] = [];
  for (const [route, { path, body, owner: expected }] of Object.entries(scopes)) {
    const [method, template] = route.split(' ') as [string, string];
    const url = path?.(owned) ?? template.replace('{id}', owned['payment']!);
    requests.push({ route, request: `${method} ${url}`, body });
    const answer = await ask(`${method} ${url}`, { partner: 'acme', body });
    assert.equal(answer.statusCode, expected, `${route}, acme: ${answer.body}`);
    if (method !== 'POST') continue;
    const { object, id } = answer.json<{ object: string; id?: string }>();
    if (id !== undefined) owned[object] = id;
  }
  await catchUp();

  const marks = [...Object.values(owned), reference, endpoint, String(gross), decimal];
  const reads = requests.filter(({ request }) => request.startsWith('GET '));
  const allOfAcme = async () => {
    const seen = reads.map(async ({ request }) => (await ask(request, { partner: 'acme' })).body);
    return { rows: await rowsOf(owner, 'acme'), seen: await Promise.all(seen) };
  };
  const before = await allOfAcme();
  before.seen.forEach((body, n) => {
    assert.ok(
      marks.some((mark) => body.includes(mark)),
      `${reads[n]!.route} shows acme nothing`,
    );
  });
  for (const { route, request, body } of requests) {
    const own = body && (JSON.parse(JSON.stringify(body).replaceAll('acme', 'globex')) as object);
    const answer = await ask(request, { partner: 'globex', body: own });
    assert.equal(answer.statusCode, scopes[route]!.stranger, `${route}, globex: ${answer.body}`);
    const shown = marks.filter((mark) => answer.body.includes(mark));
    assert.deepEqual(shown, [], `${route} shows globex what is acme's`);
    assert.equal((await ask(request, { body: own })).statusCode, 401, `${route} without a key`);
  }
  assert.deepEqual(await allOfAcme(), before);
});
