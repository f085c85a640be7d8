import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openSettlements } from '@triplock/partners';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { admitByName, partialGateway } from '../test/gateway.ts';
import { addSettlementRoutes } from './settlements.ts';

/** The settlement routes over batches of one test's own, with the rights that the gateway has. */
async function anEdge(t: TestContext) {
  const store = await createTestDatabase(t);
  await store.open().query(`
    INSERT INTO settlement.batches (partner_id, day, currency, gross, refunds, payments, refund_count)
    VALUES ('acme', '2026-03-31', 'JPY', 7, 0, 1, 0),
           ('acme', '2026-03-31', 'EUR', 4000000000000001, 1250, 4123, 1),
           ('acme', '2026-04-01', 'EUR', 5, 250, 1, 1),
           ('acme', (now() AT TIME ZONE 'UTC')::date, 'USD', 1, 0, 1, 0),
           ('globex', '2026-03-31', 'EUR', 100, 0, 1, 0)`);
  const settlements = openSettlements(store.open('triplock_gateway'));
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const app = await createHttpServer({
    logger,
    admission: admitByName,
    routes: (server) => addSettlementRoutes(server, partialGateway({ settlements })),
  });
  t.after(() => app.close());
  return (path: string, as = 'acme') =>
    app.inject({ method: 'GET', url: path, headers: { authorization: `Bearer ${as}` } });
}

test('a partner sees what it is owed of a day, by currency, and nobody else sees it', async (t) => {
  const ask = await anEdge(t);
  const answer = await ask('/v1/settlements?date=2026-03-31');
  assert.equal(answer.statusCode, 200);
  const day = { date: '2026-03-31' };
  assert.deepEqual(answer.json(), {
    object: 'list',
    data: [
      {
        ...day,
        currency: 'EUR',
        gross: 4_000_000_000_000_001,
        refunds: 1_250,
        net: 3_999_999_999_998_751,
        payments: 4_123,
        refund_count: 1,
      },
      { ...day, currency: 'JPY', gross: 7, refunds: 0, net: 7, payments: 1, refund_count: 0 },
    ],
  });
  const nothing = { object: 'list', data: [] };
  assert.deepEqual((await ask('/v1/settlements?date=2026-03-30')).json(), nothing);
  assert.deepEqual((await ask('/v1/settlements?date=2026-04-01', 'globex')).json(), nothing);
  const today = (await ask('/v1/settlements')).json<{ data: { currency: string }[] }>();
  assert.deepEqual(
    today.data.map(({ currency }) => currency),
    ['USD'],
  );
});

test('the same is there as a CSV file, with numbers and codes alone', async (t) => {
  const ask = await anEdge(t);
  const header = 'date,currency,gross,refunds,net,payments,refund_count\r\n';
  const answer = await ask('/v1/settlements/2026-04-01.csv');
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['content-type'], 'text/csv; charset=utf-8');
  assert.equal(
    answer.headers['content-disposition'],
    'attachment; filename="settlements-2026-04-01.csv"',
  );
  assert.equal(answer.body, `${header}2026-04-01,EUR,5,250,-245,1,1\r\n`);
  assert.equal((await ask('/v1/settlements/2026-04-01.csv', 'globex')).body, header);
  const two = (await ask('/v1/settlements/2026-03-31.csv')).body.split('\r\n');
  assert.deepEqual(
    two.map((row) => row.slice(0, 14)),
    ['date,currency,', '2026-03-31,EUR', '2026-03-31,JPY', ''],
  );
});

test('a day that there is not, and a parameter that is not known, are pointed at', async (t) => {
  const ask = await anEdge(t);
  for (const [path, pointer] of [
    ['?date=2026-02-30', '#/date'],
    ['?date=2025-02-29', '#/date'],
    ['?date=2026-13-01', '#/date'],
    ['?date=2026-1-1', '#/date'],
    ['?date=0000-01-01', '#/date'],
    ['?date=today', '#/date'],
    ['?date=', '#/date'],
    ['?date=2026-03-31T00:00:00Z', '#/date'],
    ['?date=2026-03-31&date=2026-03-31', '#/date'],
    ['?day=2026-03-31', '#/day'],
    ['/2026-02-30.csv', '#/date'],
    ['/.csv', '#/date'],
    ['/today.csv', '#/date'],
    ['/2026.03.31.csv', '#/date'],
    ['/%22;--.csv', '#/date'],
  ]) {
    const refused = await ask(`/v1/settlements${path}`);
    assert.equal(refused.statusCode, 400, `${path}: ${refused.body}`);
    const problem = refused.json<{ code: string; errors: { pointer: string }[] }>();
    assert.deepEqual(
      [problem.code, problem.errors.map((error) => error.pointer)],
      ['invalid_request', [pointer]],
      path,
    );
  }
  for (const path of ['/2026-03-31', '/2026-03-31.xml', '/2026-03-31.csv/x']) {
    assert.equal((await ask(`/v1/settlements${path}`)).statusCode, 404, path);
  }
});
