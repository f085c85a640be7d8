import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { ledgersApart, ledgerStoreNamed } from '@triplock/ledgers';
import { createTestRelay, eventually, testPart } from '@triplock/testing';
import { aConsole, assertDescribed } from './test/a-console.ts';

const open = { CONSOLE_LOGIN: 'none' };
const nowhere = '127.0.0.1:1';
const someId = '37585521-60c9-8d90-a37f-2e1b8a7081e6';

/** A console whose way to PostgreSQL can be closed, by the role that its pages read as. */
async function aCutConsole(t: TestContext, settings: Readonly<Record<string, string>> = open) {
  let relay: Awaited<ReturnType<typeof createTestRelay>>;
  const console = await aConsole(t, async (store) => {
    relay = await createTestRelay(t, store.url('triplock_console'));
    return { ...settings, DATABASE_URL: relay.url };
  });
  return { console, relay: relay! };
}

const readPages = [
  '/payments',
  `/payments/${someId}`,
  '/webhooks',
  '/settlements',
  '/audit',
  '/acts',
];

for (const [fault, breakIt] of [
  ['gone', (relay: { cut(): Promise<void> }) => relay.cut()],
  ['standing still', (relay: { freeze(): void }) => Promise.resolve(relay.freeze())],
] as const) {
  test(`with PostgreSQL ${fault} every page says so, the flow goes on, and all is as before afterwards`, async (t) => {
    const { console, relay } = await aCutConsole(t);
    const { ask } = console;
    assert.equal((await ask('/payments')).status, 200);
    await breakIt(relay);
    const pages = await Promise.all(
      readPages.map(async (path) => ({ path, ...(await ask(path)) })),
    );
    for (const { path, status, text } of pages) {
      assert.equal(status, 503, `${path}: ${text}`);
      assert.match(text, /PostgreSQL does not answer/, path);
      assert.match(text, /href="\/"/, `${path} leads to the flow`);
    }
    const path = '/api/v1/payments';
    const problem = await ask(path);
    assertDescribed({ method: 'GET', path }, problem);
    assert.equal((JSON.parse(problem.text) as { code: string }).code, 'unavailable');
    assert.doesNotMatch(problem.text, /127\.0\.0\.1|ECONN/, 'no inner host is told');
    assert.equal((await ask('/')).status, 200);
    assert.equal((await ask('/api/v1/flow')).status, 200);
    await relay.restore();
    await eventually(async () => (await ask('/payments')).status === 200);
  });
}

test('with Kafka gone each dead letter of an act has its own outcome, and what lacks a setting does nothing', async (t) => {
  const console = await aConsole(t, { ...open, KAFKA_BROKERS: nowhere });
  const owner = console.store.open();
  const webhooks = [randomUUID(), randomUUID()];
  await owner.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts, finished_at)
     SELECT unnest($1::uuid[]), 'acme', $2, '{}', 'failed', 9, now()`,
    [webhooks, someId],
  );
  const { csrf } = JSON.parse((await console.ask('/api/v1/session')).text) as { csrf: string };
  const redrive = async (...id: string[]) => {
    const { text } = await console.ask('/api/v1/acts/dead-letters.redrive', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-csrf-token': csrf },
      body: JSON.stringify({ id, reason: 'mended' }),
    });
    const { id: nth, ...answer } = JSON.parse(text) as { id: number; outcome: string };
    const [act] = await owner.query('SELECT outcome FROM console.acts WHERE act_id = $1', [nth]);
    assert.deepEqual(act, { outcome: answer.outcome }, 'it is recorded as it is answered');
    return answer;
  };
  const given = async () => {
    const rows = await owner.query<{ event_id: string }>(
      `SELECT event_id FROM webhooks.deliveries WHERE state = 'pending'`,
    );
    return rows.map((row) => row.event_id);
  };
  const [first, last] = webhooks.map((each) => `webhook:${each}`) as [string, string];
  assert.equal((await redrive(first, 'refused:auditor:7')).outcome, 'refused');
  assert.deepEqual(await given(), [], 'PUBSUB_PROJECT_ID is not set');
  const results = [
    { id: first, outcome: 'redriven' },
    { id: 'kafka:0:0', outcome: 'unknown' },
    { id: last, outcome: 'not-tried' },
  ];
  const answer = await redrive(first, 'kafka:0:0', last);
  assert.partialDeepStrictEqual(answer, { outcome: 'unknown', result: { results } });
  assert.deepEqual(await given(), [webhooks[0]]);
});

test('with PostgreSQL gone nobody is let in by what is not known, and the page says why', async (t) => {
  const { console, relay } = await aCutConsole(t, {});
  const { cookie } = await console.logIn(await console.anOperator('ada', 'viewer'));
  await relay.cut();
  const whoever: Record<string, string>[] = [{ cookie }, { authorization: 'Bearer op_any' }];
  for (const headers of whoever) {
    const { status, text } = await console.ask('/payments', { headers });
    assert.equal(status, 503, text);
    assert.match(text, /PostgreSQL does not answer/);
  }
});

test('with Kafka and Redis gone the pages of the database are whole, and what asks those two says so', async (t) => {
  const redis = { REDIS_URL: `redis://${nowhere}`, CLAIMS: 'redis' };
  const { ask } = await aConsole(t, { ...open, ...redis, KAFKA_BROKERS: nowhere });
  for (const path of ['/payments', '/webhooks', '/audit', '/dead-letters']) {
    assert.equal((await ask(path)).status, 200, path);
  }
  const records = await ask('/dead-letters/records');
  assert.equal(records.status, 200);
  assert.match(records.text, /This part did not answer; the rest is shown/);
  const letters = await ask('/api/v1/dead-letters');
  assertDescribed({ method: 'GET', path: '/api/v1/dead-letters' }, letters);
  assert.match((JSON.parse(letters.text) as { unasked: string[] }).unasked.join(), /^kafka: /);

  const path = '/api/v1/payments/:id/layers';
  const layers = await ask(path.replace(':id', someId));
  assert.equal(layers.status, 200, layers.text);
  assertDescribed({ method: 'GET', path }, layers);
  const { unasked } = JSON.parse(layers.text) as { unasked: { part: string }[] };
  assert.deepEqual(new Set(unasked.map(({ part }) => part)), new Set(['kafka', 'redis']));
  const piece = await ask(`/payments/${someId}/layers`);
  assert.match(piece.text, /Not asked/);
});

test('a stream that ended and is asked for again gets the whole picture at once, and nobody is counted twice', async (t) => {
  const { console, relay } = await aCutConsole(t, {
    ...open,
    PROCESS_URLS: `ingest-gateway-1=http://${nowhere}`,
  });
  const streams = async () => {
    const told = await console.service.admin('/metrics?name[]=triplock_console_streams');
    return /^triplock_console_streams\{.*\} (\d+)$/m.exec(await told.text())?.[1];
  };
  const first = await console.openStream();
  assert.match(await first.next(), /ingest-gateway/);
  assert.equal(await streams(), '1');
  first.close();
  await eventually(async () => (await streams()) === '0');
  // Whatever a browser remembers of before: each event is all there is to see.
  await relay.cut();
  const again = await console.openStream({ 'last-event-id': '17' });
  for (const event of [await again.next(), await again.next()]) {
    assert.match(event, /ingest-gateway-1[^]*away/);
    assert.match(event, /The last hour/);
  }
  assert.equal(await streams(), '1');
  again.close();
});

test('requests, acts and looks are counted, by routes and kinds that are in a table', async (t) => {
  const { ask, origin, service } = await aConsole(t, {
    ...open,
    PROCESS_URLS: `auditor=http://${nowhere}`,
  });
  for (const path of [
    '/payments',
    '/payments',
    `/payments/${someId}`,
    '/nowhere',
    '/flow/events',
  ]) {
    await ask(path);
  }
  const { csrf } = JSON.parse((await ask('/api/v1/session')).text) as { csrf: string };
  const body = { csrf, partner: 'acme', reason: 'new' };
  await ask('/acts/partners.add', { method: 'POST', headers: { origin }, body });
  const text = await (await service.admin('/metrics')).text();
  const value = (metric: string, ...labels: string[]) => {
    const lines = text.split('\n').filter((line) => line.startsWith(`${metric}{`));
    const mine = lines.filter((line) => labels.every((label) => line.includes(label)));
    return mine.map((line) => Number(line.split(' ').at(-1)));
  };
  const requests = 'triplock_console_request_seconds_count';
  assert.deepEqual(value(requests, 'route="/payments"', 'status="2xx"'), [2]);
  assert.deepEqual(value(requests, 'route="/payments/:id"', 'status="4xx"'), [1]);
  assert.deepEqual(value(requests, 'route="none"', 'status="4xx"'), [1]);
  assert.deepEqual(value(requests, 'route="/flow/events"'), []);
  const acts = 'triplock_console_acts_total';
  assert.deepEqual(value(acts, 'kind="partners.add"', 'outcome="done"'), [1]);
  assert.deepEqual(value(acts, 'kind="audit.run"', 'outcome="done"'), [0]);
  assert.ok(value('triplock_console_looks_total', 'outcome="away"')[0]! >= 1);
});

for (const ledger of ledgersApart) {
  test(`with a ledger in ${ledger} the pages read its copy, and say so`, async (t) => {
    const { parts, settingsAt, title, cannot } = ledgerStoreNamed(ledger);
    const away = Object.fromEntries(parts.map((part) => [part, nowhere]));
    const { ask, store } = await aConsole(t, {
      ...open,
      LEDGER_STORE: ledger,
      ...settingsAt(away, 'triplock'),
      KAFKA_BROKERS: await testPart('kafka'),
    });
    const owner = store.open();
    await owner.query(`INSERT INTO ledger.copied (until_micros, behind) VALUES (1000000, false)`);
    for (const path of ['/payments', '/dead-letters']) {
      const { status, text } = await ask(path);
      assert.equal(status, 200, text);
      assert.ok(text.includes(`The ledger is in ${title}`), path);
    }
    await owner.query('UPDATE ledger.copied SET behind = true');
    assert.match((await ask('/payments')).text, /brought up to now: what changed after 1970/);
    if (cannot.givePendingBack === undefined) return;
    const transaction = { id: `transaction:${someId}`, reason: 'mended' };
    const { csrf } = JSON.parse((await ask('/api/v1/session')).text) as { csrf: string };
    const answered = await ask('/api/v1/acts/dead-letters.redrive', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-csrf-token': csrf },
      body: JSON.stringify(transaction),
    });
    const { outcome, detail } = JSON.parse(answered.text) as { outcome: string; detail: string };
    assert.equal(outcome, 'refused');
    assert.ok(detail.includes(cannot.givePendingBack), detail);
  });
}
