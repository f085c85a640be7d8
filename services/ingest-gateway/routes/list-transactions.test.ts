import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { renderPayment } from '@triplock/contracts';
import { openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment, PartnerId, TxnId } from '@triplock/payments';
import { openDatabase, type Database } from '@triplock/postgres';
import { createMetrics, sealingKeys } from '@triplock/runtime';
import { aPayment, createTestDatabase, testSealingKeys } from '@triplock/testing';
import { openTestGateway, partialGateway } from '../test/gateway.ts';
import { httpRequest, startEdge } from '../test/http-edge.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { addListRoutes } from './list-transactions.ts';
import { partnerRoutes } from './partner-routes.ts';
import { readTransaction } from './read-transactions.ts';

type List = { object: string; data: { id: string }[]; has_more: boolean };

/** The route over a ledger of one test's own, asked by acme. */
async function openList(t: TestContext, { away = false } = {}) {
  const database = await createTestDatabase(t);
  const reader = away ? openAway(t) : database.open('triplock_gateway');
  const gateway = partialGateway({
    ledger: openPostgresLedger(reader),
    metrics: gatewayMetrics(createMetrics('test')),
  });
  const edge = await startEdge(t, { routes: (app) => addListRoutes(partnerRoutes(app), gateway) });
  const writer = openPostgresLedger(database.open('triplock_ledger'));
  return {
    post: async (payments: readonly AcceptedPayment[]) => {
      const settlement = { result: { state: 'succeeded' } as const, settledAt: new Date() };
      await writer.post(
        payments.map((payment) => ({ payment, traceparent: '00-1-1-01', settlement })),
      );
    },
    ask: async (query: string) => edge.exchange(httpRequest(`GET /v1/payments${query}`)),
  };
}

function openAway(t: TestContext): Database {
  const url = 'postgres://nobody@127.0.0.1:1/nothing';
  const onIdleError = () => undefined; // No connection is ever made.
  const database = openDatabase({ url, applicationName: 'test', onIdleError });
  t.after(() => database.close());
  return database;
}

test('a partner walks through its own payments, each as a read of it shows it', async (t) => {
  const { post, ask } = await openList(t);
  const times = [1, 2, 3].map((second) => new Date(Date.UTC(2026, 2, 4, 5, 6, second)));
  const mine = times.map((acceptedAt) => aPayment({ acceptedAt, reference: 'a b' }));
  await post([...mine, aPayment({ partner: 'globex' })]);
  const [oldest, middle, newest] = mine.map(({ txnId }) => txnId);
  const pages = [
    '?limit=2',
    `?limit=2&starting_after=${middle}`,
    '?reference=a+b&status=succeeded',
  ];
  const seen = [];
  for (const page of pages) {
    const answer = await ask(page);
    assert.equal(answer.status, 200, answer.body);
    assert.match(answer.headers['content-type']!, /^application\/json/);
    const list = JSON.parse(answer.body) as List;
    assert.equal(list.object, 'list');
    seen.push([list.data.map(({ id }) => id), list.has_more]);
  }
  assert.deepEqual(seen, [
    [[newest, middle], true],
    [[oldest], false],
    [[newest, middle, oldest], false],
  ]);
});

test('a payment in a list is the payment as it is read', async (t) => {
  const { post, ask } = await openList(t);
  const payment = aPayment({ description: 'Grüße', metadata: { b: '1', a: '2' } });
  await post([payment]);
  const { data } = JSON.parse((await ask('')).body) as { data: Record<string, unknown>[] };
  const { settled_at, ...shown } = data[0]!;
  const posted = { version: 1, amountRefunded: 0n, settledAt: null, state: 'succeeded' } as const;
  const { settled_at: _, ...expected } = renderPayment({ ...payment, ...posted });
  assert.deepEqual(shown, expected);
  assert.match(String(settled_at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('a hundred of the longest payments come by answers of 256 KiB, each payment once', async (t) => {
  const { post, ask } = await openList(t);
  const metadata = Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [`${n}`.padEnd(40, 'n'), '\u{10ffff}'.repeat(500)]),
  );
  const times = Array.from(
    { length: 20 },
    (_, second) => new Date(Date.UTC(2026, 2, 4, 5, 6, second)),
  );
  const mine = times.map((acceptedAt) => aPayment({ acceptedAt, metadata }));
  for (const payment of mine) await post([payment]);
  const walked: string[] = [];
  for (let more = true; more;) {
    const last = walked.at(-1);
    const answer = await ask(`?limit=100${last === undefined ? '' : `&starting_after=${last}`}`);
    assert.ok(Buffer.byteLength(answer.body) <= 262_144, `${Buffer.byteLength(answer.body)} bytes`);
    const list = JSON.parse(answer.body) as List;
    assert.ok(list.data.length > 0);
    walked.push(...list.data.map(({ id }) => id));
    more = list.has_more;
  }
  assert.deepEqual(walked, mine.map(({ txnId }) => txnId).reverse());
});

test('what cannot be asked is refused and pointed at', async (t) => {
  const { post, ask } = await openList(t);
  const other = aPayment({ partner: 'globex' });
  await post([other]);
  const cases = [
    ['?limit=101', '#/limit'],
    ['?limit=1&limit=1', '#/limit'],
    ['?status=open', '#/status'],
    ['?ending_before=x', '#/ending_before'],
    ['?starting_after=x', '#/starting_after'],
    [`?starting_after=${aPayment().txnId}`, '#/starting_after'],
    [`?starting_after=${other.txnId}`, '#/starting_after'],
    ['?reference=%00', '#/reference'],
    ['?since=yesterday', '#/since'],
    ['?until=2026-02-30T00:00:00Z', '#/until'],
  ] as const;
  for (const [query, pointer] of cases) {
    const answer = await ask(query);
    const { code, errors } = JSON.parse(answer.body) as {
      code: string;
      errors: { pointer: string }[];
    };
    assert.deepEqual([answer.status, code, errors[0]?.pointer], [400, 'invalid_request', pointer]);
  }
  assert.equal((await ask('?')).status, 200);
});

test('a ledger that cannot be asked is a 503 that says when to ask again', async (t) => {
  const { ask } = await openList(t, { away: true });
  const answer = await ask('');
  assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '1']);
});

test('a read shows what a customer has to do to its own partner while it waits, and no longer', async (t) => {
  const { gateway: closed, database } = await openTestGateway(t);
  const actionKeys = sealingKeys.parse(testSealingKeys)!;
  const gateway = { ...closed, actionKeys };
  const writer = openPostgresLedger(database.open('triplock_ledger'));
  const [payment, other] = [aPayment({ paymentMethod: 'pm_card_visa' }), aPayment()];
  const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
  await writer.post([payment, other].map((each) => ({ payment: each, traceparent })));
  const url = 'https://bank.example/who?it=is';
  const way = { redirect_to_url: { url }, client_secret: 'pi_1_secret_2' };
  const sealed = (of: TxnId) =>
    JSON.stringify(
      actionKeys.seal(`action/${of}`, JSON.stringify({ type: 'redirect_to_url', ...way })),
    );
  const { txnId } = payment;
  const action = { type: 'redirect_to_url', sealed: sealed(txnId) };
  const wait = { version: 1, withinMs: 60_000, traceparent, action };
  await writer.awaitCustomer({ txnId, ...wait });
  // Somebody copied it to a payment of his own.
  await writer.awaitCustomer({ txnId: other.txnId, ...wait });
  const shown = async (to: typeof gateway, id = txnId, partnerId = 'acme' as PartnerId) => {
    const ended = new AbortController().signal;
    const asked = { kind: 'payment' as const, txnId: id, partnerId, mayAct: true };
    const question = { ...asked, waitMs: 0, ended };
    const found = await readTransaction(to, question);
    return found.outcome === 'found' ? (JSON.parse(found.body) as Record<string, unknown>) : {};
  };
  const { customer } = (await writer.find(txnId))!;
  const expires_at = customer!.expiresAt.toISOString();
  const pending = await shown(gateway);
  assert.deepEqual(pending['next_action'], { type: 'redirect_to_url', expires_at, ...way });
  const otherKeys = sealingKeys.parse(testSealingKeys.replace('test', 'another'))!;
  for (const without of [
    await shown({ ...gateway, actionKeys: otherKeys }),
    await shown(gateway, other.txnId),
  ]) {
    assert.equal(without['status'], 'pending');
    assert.equal(without['next_action'], undefined);
  }
  assert.deepEqual(await shown(gateway, txnId, 'globex' as PartnerId), {});
  const result = { state: 'succeeded' as const };
  await writer.settle({ txnId, version: 2, traceparent, result, settledAt: new Date() });
  const { status, next_action } = await shown(gateway);
  assert.deepEqual([status, next_action], ['succeeded', undefined]);
});
