import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openSettlements } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { openPostgresLedger } from '@triplock/ledger';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { admitByName, partialGateway } from '../test/gateway.ts';
import { renderCamt053 } from './camt053.ts';
import { partnerRoutes } from './partner-routes.ts';
import { addSettlementRoutes } from './settlements.ts';

/** The settlement routes over batches of one test's own, with the rights that the gateway has. */
async function anEdge(t: TestContext) {
  const store = await createTestDatabase(t);
  const owner = store.open();
  await owner.query(`
    INSERT INTO partners.settlement_batches (partner_id, day, currency, gross, refunds, payments, refund_count)
    VALUES ('acme', '2026-03-31', 'JPY', 7, 0, 1, 0),
           ('acme', '2026-03-31', 'EUR', 4000000000000001, 1250, 4123, 1),
           ('acme', '2026-04-01', 'EUR', 5, 250, 1, 1),
           ('acme', (now() AT TIME ZONE 'UTC')::date, 'USD', 1, 0, 1, 0),
           ('acme', '2026-05-01', 'GBP', 9007199254740993, 0, 1, 0),
           ('acme', (now() AT TIME ZONE 'UTC')::date, 'JPY', 2, 5, 1, 1),
           ('globex', '2026-03-31', 'EUR', 100, 0, 1, 0);
    INSERT INTO partners.settlement_lines (partner_id, day, txn_id, kind, currency, amount, settled_at)
    SELECT partner_id, day::date, gen_random_uuid(), kind, currency, amount, settled_at::timestamptz
    FROM (VALUES
      ('acme', '2026-03-31', 'payment', 'EUR', 700, '2026-03-31T10:00:00Z'),
      ('acme', '2026-03-31', 'payment', 'JPY', 7, '2026-03-31T11:00:00Z'),
      ('globex', '2026-03-31', 'payment', 'EUR', 100, '2026-03-31T11:30:00Z'),
      ('acme', '2026-04-01', 'capture', 'EUR', 5, '2026-03-31T12:00:00Z'),
      ('acme', '2026-04-01', 'refund', 'EUR', -250, '2026-04-01T09:00:00.5Z')
    ) AS t (partner_id, day, kind, currency, amount, settled_at);
    INSERT INTO partners.settlement_sums
    SELECT partner_id, day, currency, kind, (settled_at AT TIME ZONE 'UTC')::date, count(*), sum(amount)
    FROM partners.settlement_lines GROUP BY 1, 2, 3, 4, 5;
    SET session_replication_role = replica;
    UPDATE partners.settlement_calendar SET
      closed_through = '2026-05-31', complete_through = '2026-06-01T00:20:00Z';
    RESET session_replication_role`);
  const reader = store.open('triplock_gateway');
  const settlements = openSettlements(reader);
  const ledger = openPostgresLedger(store.open('triplock_gateway'));
  const pending = [
    aPayment({ amount: 999_999_999_999n }),
    aPayment({ amount: 1n }),
    aPayment({ amount: 30n, currency: 'CHF' }),
    aPayment({ amount: 9n, partner: 'globex' }),
  ];
  const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
  await openPostgresLedger(store.open('triplock_ledger')).post(
    pending.map((payment) => ({ payment, traceparent })),
  );
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const app = await createHttpServer({
    logger,
    admission: admitByName,
    routes: (server) =>
      addSettlementRoutes(partnerRoutes(server), partialGateway({ settlements, ledger })),
  });
  t.after(() => app.close());
  const ask = (path: string, as = 'acme') =>
    app.inject({ method: 'GET', url: path, headers: { authorization: `Bearer ${as}` } });
  return Object.assign(ask, { owner });
}

test('a partner sees what it is owed of a day, by currency, and nobody else sees it', async (t) => {
  const ask = await anEdge(t);
  const answer = await ask('/v1/settlements?date=2026-03-31');
  assert.equal(answer.statusCode, 200);
  const closed = { status: 'closed', complete_through: '2026-04-01T00:00:00.000Z' };
  const day = { date: '2026-03-31', ...closed };
  assert.deepEqual(answer.json(), {
    object: 'list',
    ...day,
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
  const nothing = { object: 'list', ...closed, data: [] };
  const before = (await ask('/v1/settlements?date=2026-03-30')).json<object>();
  const until = { date: '2026-03-30', complete_through: '2026-03-31T00:00:00.000Z' };
  assert.deepEqual(before, { ...nothing, ...until });
  const other = (await ask('/v1/settlements?date=2026-03-30', 'globex')).json<object>();
  assert.deepEqual(other, before);
  const open = (await ask('/v1/settlements?date=2026-06-01')).json<object>();
  const during = { status: 'open', complete_through: '2026-06-01T00:20:00.000Z' };
  assert.deepEqual(open, { object: 'list', date: '2026-06-01', ...during, data: [] });
  const today = (await ask('/v1/settlements')).json<{ data: { currency: string }[] }>();
  assert.deepEqual(
    today.data.map(({ currency }) => currency),
    ['JPY', 'USD'],
  );
});

test('sums beyond 2^53 are shown to the digit', async (t) => {
  const ask = await anEdge(t);
  const row = ['2026-05-01', 'GBP', '9007199254740993', '0', '9007199254740993', '1', '0'];
  const [date, currency, ...sums] = row;
  const names = ['gross', 'refunds', 'net', 'payments', 'refund_count'];
  const fields = names.map((name, at) => `"${name}":${sums[at]}`).join();
  const status = `"status":"closed","complete_through":"2026-05-02T00:00:00.000Z"`;
  const data = `{"date":"${date}","currency":"${currency}",${fields},${status}}`;
  const { body } = await ask('/v1/settlements?date=2026-05-01');
  assert.equal(body, `{"object":"list","date":"${date}",${status},"data":[${data}]}`);
  const file = await ask('/v1/settlements/2026-05-01.csv');
  assert.equal(file.body.split('\r\n')[1], row.join());
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
    ['/2026-02-30.xml', '#/date'],
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
  for (const path of ['/2026-03-31', '/2026-03-31.pdf', '/2026-03-31.csv/x']) {
    assert.equal((await ask(`/v1/settlements${path}`)).statusCode, 404, path);
  }
});

test('a balance is what is pending, and every day added up, to the digit; nobody else sees it', async (t) => {
  const ask = await anEdge(t);
  const answer = await ask('/v1/balance');
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['cache-control'], 'no-store');
  const rows = [
    '{"currency":"CHF","pending":30,"available":0,"refunded":0,"settled":0}',
    '{"currency":"EUR","pending":1000000000000,"available":0,"refunded":1500,"settled":3999999999998506}',
    '{"currency":"GBP","pending":0,"available":0,"refunded":0,"settled":9007199254740993}',
    '{"currency":"JPY","pending":0,"available":-3,"refunded":5,"settled":7}',
    '{"currency":"USD","pending":0,"available":1,"refunded":0,"settled":0}',
  ];
  assert.equal(answer.body, `{"object":"balance","data":[${rows.join(',')}]}`);
  const other = '{"currency":"EUR","pending":9,"available":0,"refunded":0,"settled":100}';
  assert.equal((await ask('/v1/balance', 'globex')).body, `{"object":"balance","data":[${other}]}`);
  assert.deepEqual((await ask('/v1/balance', 'new')).json(), { object: 'balance', data: [] });
});

test('a closed day has a statement, with what was there before and what came late; an open one has none', async (t) => {
  const ask = await anEdge(t);
  const answer = await ask('/v1/settlements/2026-04-01.xml');
  assert.equal(answer.statusCode, 200, answer.body);
  assert.equal(answer.headers['content-type'], 'application/xml; charset=utf-8');
  const of = answer.body.split('<Stmt>').slice(1);
  assert.deepEqual(
    of.map((text) => /<Id>(\d{4}-\d\d-\d\d-[A-Z]{3})<\/Id>/.exec(text)![1]),
    ['2026-04-01-EUR', '2026-04-01-JPY'],
  );
  const amounts = [...of[0]!.matchAll(/<Amt Ccy="EUR">([\d.]+)<\/Amt><CdtDbtInd>(\w+)</g)];
  assert.deepEqual(
    amounts.map(([, amount, way]) => `${amount} ${way}`),
    ['39999999999987.51 CRDT', '39999999999985.06 CRDT', '0.05 CRDT', '2.50 DBIT'],
  );
  const late = '<BookgDt><Dt>2026-04-01</Dt></BookgDt><ValDt><Dt>2026-03-31</Dt></ValDt>';
  assert.ok(of[0]!.includes(`${late}<BkTxCd><Prtry><Cd>capture</Cd>`));
  assert.ok(of[0]!.includes('<TtlDbtNtries><NbOfNtries>1</NbOfNtries><Sum>2.50</Sum>'));
  // Nothing in this currency came on the day.
  assert.ok(of[1]!.includes('<Amt Ccy="JPY">7</Amt>') && !of[1]!.includes('<Ntry>'));
  assert.equal((await ask('/v1/settlements/2026-04-01.xml')).body, answer.body);
  const open = await ask('/v1/settlements/2026-06-01.xml');
  assert.deepEqual([open.statusCode, open.headers['retry-after']], [409, '900']);
  assert.equal(open.json<{ code: string }>().code, 'settlement_open');
  assert.equal((await ask('/v1/settlements/2026-03-30.xml', 'globex')).statusCode, 404);
  const long = renderCamt053('a'.repeat(63) as PartnerId, '2026-04-01', [
    { currency: 'EUR', opening: -1n, entries: [] },
  ]);
  assert.match(long, /<Othr><Id>[0-9a-f]{32}<\/Id>.*<Nm>a{63}<\/Nm>.*OPBD.*>0\.01<.*DBIT/);
});

test('before anybody has looked every day is open, and nobody says how complete it is', async (t) => {
  const ask = await anEdge(t);
  await ask.owner.query(`SET session_replication_role = replica;
    UPDATE partners.settlement_calendar SET closed_through = NULL, complete_through = NULL`);
  const { status, complete_through: through } = (await ask('/v1/settlements?date=2026-03-31')).json<
    Record<string, unknown>
  >();
  assert.deepEqual([status, through], ['open', null]);
  const balance = (await ask('/v1/balance', 'globex')).json<{ data: object[] }>().data[0];
  assert.partialDeepStrictEqual(balance, { available: 100, settled: 0 });
});

type Entry = { id: string; amount: number };

test('a balance is shown line by line, of all days or of one, and nobody else sees it', async (t) => {
  const ask = await anEdge(t);
  const list = async (query = '', as = 'acme') => {
    const answer = await ask(`/v1/balance/entries${query}`, as);
    assert.equal(answer.statusCode, 200, answer.body);
    return answer.json<{ data: Entry[]; has_more: boolean }>();
  };
  const amounts = ({ data }: { data: Entry[] }) => data.map(({ amount }) => amount);
  const whole = await list();
  assert.deepEqual([amounts(whole), whole.has_more], [[-250, 5, 7, 700], false]);
  const { id, source, ...late } = whole.data[1]! as Entry & { source: string };
  assert.match(`${id} ${source}`, /^2026-04-01\.[1-9]\d* [0-9a-f-]{36}$/);
  assert.deepEqual(late, {
    object: 'balance_entry',
    type: 'capture',
    amount: 5,
    currency: 'EUR',
    settlement_date: '2026-04-01',
    settled_at: '2026-03-31T12:00:00.000Z',
  });
  const first = await list('?limit=2');
  assert.deepEqual([amounts(first), first.has_more], [[-250, 5], true]);
  const second = await list(`?limit=2&starting_after=${first.data[1]!.id}`);
  assert.deepEqual([amounts(second), second.has_more], [[7, 700], false]);
  assert.deepEqual(amounts(await list('?date=2026-03-31&currency=EUR')), [700]);
  assert.deepEqual(amounts(await list('?date=2026-03-30')), []);
  const [globex] = (await list('', 'globex')).data;
  assert.equal(globex!.amount, 100);
  for (const [query, pointer] of [
    [`starting_after=${globex!.id}`, '#/starting_after'],
    ['starting_after=2026-02-30.1', '#/starting_after'],
    ['starting_after=7', '#/starting_after'],
    ['date=2026-02-30', '#/date'],
    ['currency=eur', '#/currency'],
    ['limit=0', '#/limit'],
  ] as const) {
    const refused = await ask(`/v1/balance/entries?${query}`);
    assert.equal(refused.statusCode, 400, query);
    const { errors } = refused.json<{ errors: { pointer: string }[] }>();
    assert.deepEqual(
      errors.map((each) => each.pointer),
      [pointer],
      query,
    );
  }
});

test('a balance takes no parameter, and is not told in part while the ledger does not answer', async (t) => {
  const ask = await anEdge(t);
  const refused = await ask('/v1/balance?currency=EUR');
  assert.equal(refused.statusCode, 400);
  assert.deepEqual(
    refused.json<{ errors: { pointer: string }[] }>().errors.map(({ pointer }) => pointer),
    ['#/currency'],
  );
  await ask.owner.query('REVOKE SELECT ON ledger.transactions FROM triplock_gateway');
  const unknown = await ask('/v1/balance');
  assert.deepEqual(
    [unknown.statusCode, unknown.json<{ code: string }>().code],
    [503, 'unavailable'],
  );
});
