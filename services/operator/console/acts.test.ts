import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { testWebhookKeys } from '@triplock/testing';
import { lettersMax } from './kinds-of-acts.ts';
import { aConsole, assertDescribed, type AConsole } from './test/a-console.ts';

type Row = {
  act: string;
  target: string;
  done_by: string;
  why: string;
  outcome: string;
  detail: string;
};

const actsIn = ({ store }: AConsole) =>
  store
    .open()
    .query<Row>(
      `SELECT act, target, done_by, why, outcome, detail FROM console.acts WHERE role <> 'owner' ORDER BY act_id`,
    );

/** As a program acts, by an operator's token. */
async function byToken(console: AConsole, name: string) {
  const token = await console.anOperator(name, 'admin');
  return async (act: string, fields: object) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const asking = { method: 'POST', headers, body: JSON.stringify(fields) };
    return console.ask(`/api/v1/acts/${act}`, asking);
  };
}

test('a partner gets a key that is shown once, and the act is kept with who and why', async (t) => {
  const console = await aConsole(t);
  const act = await byToken(console, 'ada');
  const added = await act('partners.add', { partner: 'acme', reason: 'a new customer' });
  const { outcome, secret } = JSON.parse(added.text) as { outcome: string; secret: string };
  assert.equal(outcome, 'done', added.text);
  assert.match(secret, /^tl_/);
  const again = await act('partners.add', { partner: 'acme', reason: 'once more' });
  assert.equal((JSON.parse(again.text) as { outcome: string }).outcome, 'refused');
  const rows = await actsIn(console);
  const kept = { act: 'partners.add', target: 'acme', done_by: 'ada' };
  assert.partialDeepStrictEqual(rows, [
    { ...kept, why: 'a new customer', outcome: 'done' },
    { ...kept, why: 'once more', outcome: 'refused' },
  ]);
  assert.ok(!JSON.stringify(rows).includes(secret), 'a secret is in no record');
  const [own] = await console.store
    .open()
    .query<{ done_by: string; why: string }>(
      `SELECT done_by, why FROM partners.acts WHERE act = 'add'`,
    );
  assert.deepEqual(own, { done_by: 'ada', why: 'a new customer' });
});

test('an act needs a reason and fields that make sense, else nothing is recorded or done', async (t) => {
  const console = await aConsole(t);
  const act = await byToken(console, 'ada');
  const someId = randomUUID();
  const tooMany = Array.from({ length: 41 }, () => `transaction:${randomUUID()}`);
  for (const [name, fields] of [
    ['partners.add', { partner: 'acme' }],
    ['partners.add', { partner: 'acme', reason: '   ' }],
    ['partners.add', { partner: 'acme', reason: 'x'.repeat(501) }],
    ['partners.add', { partner: '<script>', reason: 'new' }],
    ['partners.add', { partner: 'acme', reason: 'new', form: 'no uuid' }],
    ['partners.revoke-key', { partner: 'acme', reason: 'lost', prefix: '' }],
    ['dead-letters.redrive', { reason: 'mended' }],
    ['dead-letters.redrive', { reason: 'mended', id: ['kafka:0:0', 'nonsense'] }],
    ['dead-letters.dismiss', { reason: 'a test', id: [] }],
    ['dead-letters.dismiss', { reason: 'a test', id: [`outbox:${randomUUID()}`] }],
    ['dead-letters.dismiss', { id: ['kafka:0:0'] }],
    ['partners.rotate-secret', { reason: 'lost', partner: 'acme', endpoint: 'the first' }],
    ['webhooks.redeliver-window', { reason: 'up again', partner: 'acme', since: 'yesterday' }],
    ['webhooks.redeliver', { reason: 'up again', partner: 'acme', id: '1' }],
    ['losses.acknowledge', { reason: 'served', id: 'nothing' }],
    ['dead-letters.redrive', { reason: 'mended', id: ['kafka:0:0'], again: true }],
    ['dead-letters.redrive', { reason: 'mended', id: tooMany }],
    ['partners.card-numbers', { reason: 'new', partner: 'acme', allowed: true }],
    ['partners.card-numbers', { reason: 'new', partner: 'acme' }],
    ['partners.rotate-secret', { reason: 'lost', partner: 'acme', endpoint: someId, again: 'on' }],
    ['partners.add', { reason: { nested: 'text' }, partner: 'acme' }],
  ] as const) {
    const { status, text } = await act(name, fields);
    assert.equal(status, 400, `${name} ${JSON.stringify(fields)}: ${text}`);
  }
  assert.deepEqual(await actsIn(console), []);
  assert.deepEqual(await console.store.open().query('SELECT FROM partners.partners'), []);
});

test('a form that is sent twice, also at once, acts once', async (t) => {
  const console = await aConsole(t);
  const act = await byToken(console, 'ada');
  await act('partners.add', { partner: 'acme', reason: 'new' });
  const form = randomUUID();
  const rotate = () => act('partners.rotate-key', { partner: 'acme', reason: 'lost', form });
  const answers = [...(await Promise.all([rotate(), rotate(), rotate()])), await rotate()];
  const outcomes = answers.map(({ text }) => (JSON.parse(text) as { outcome: string }).outcome);
  assert.deepEqual(outcomes.sort(), ['asked-before', 'asked-before', 'asked-before', 'done']);
  const keys = await console.store.open().query('SELECT FROM partners.api_keys');
  assert.equal(keys.length, 2);
});

test('a form that was sent begins nothing else, and nothing for anybody else', async (t) => {
  const console = await aConsole(t);
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  for (const partner of ['acme', 'globex']) await ada('partners.add', { partner, reason: 'new' });
  const sent = { form: randomUUID(), partner: 'acme', reason: 'asked for', allowed: 'yes' };
  assert.equal((await ada('partners.card-numbers', sent)).status, 200);
  for (const other of [
    () => ada('partners.rotate-key', sent),
    () => ada('partners.card-numbers', { ...sent, partner: 'globex' }),
    () => ada('partners.card-numbers', { ...sent, allowed: 'no' }),
    () => bob('partners.card-numbers', sent),
  ]) {
    const answer = await other();
    assert.equal(answer.status, 409, answer.text);
    assertDescribed({ method: 'POST', path: '/api/v1/acts/partners.add' }, answer);
    assert.equal((JSON.parse(answer.text) as { code: string }).code, 'form_reused');
  }
  const again = await ada('partners.card-numbers', { ...sent, reason: 'once more' });
  assert.equal((JSON.parse(again.text) as { outcome: string }).outcome, 'asked-before');
  assert.deepEqual(
    (await actsIn(console)).map(({ act, target }) => [act, target]),
    [
      ['partners.add', 'acme'],
      ['partners.add', 'globex'],
      ['partners.card-numbers', 'acme yes'],
    ],
  );
});

test('an act takes as many dead letters as it says', async (t) => {
  const act = await byToken(await aConsole(t), 'ada');
  const id = Array.from({ length: lettersMax }, () => `webhook:${randomUUID()}.99`);
  const { status, text } = await act('dead-letters.redrive', { id, reason: 'mended' });
  assert.equal(status, 200, text);
  assert.equal((JSON.parse(text) as { outcome: string }).outcome, 'nothing');
});

test('a webhook that was given up is redriven once, whoever asks again, and nothing is no act on anything', async (t) => {
  const console = await aConsole(t);
  const owner = console.store.open();
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  const eventId = randomUUID();
  await owner.query(
    `INSERT INTO notifier.deliveries (event_id, partner_id, txn_id, body, state, attempts,
       first_attempt_at, finished_at, last_error)
     VALUES ($1, 'acme', $2, '{}', 'failed', 9, now() - interval '1 day', now(), 'ECONNREFUSED')`,
    [eventId, randomUUID()],
  );
  const asked = { id: [`webhook:${eventId}`], reason: 'its server is mended' };
  const answers = await Promise.all([
    ada('dead-letters.redrive', asked),
    bob('dead-letters.redrive', asked),
  ]);
  const outcomes = answers.map(({ text }) => (JSON.parse(text) as { outcome: string }).outcome);
  assert.deepEqual(outcomes.sort(), ['done', 'nothing']);
  const states = await owner.query('SELECT state, attempts FROM notifier.deliveries');
  assert.deepEqual(states, [{ state: 'pending', attempts: 9 }]);
  const own = await owner.query('SELECT subject, why FROM auditor.operator_acts');
  assert.deepEqual(own, [{ subject: `webhook:${eventId}`, why: asked.reason }]);

  await owner.query(`UPDATE notifier.deliveries SET state = 'failed', finished_at = now()`);
  const window = { partner: 'acme', since: '2026-01-01', reason: 'up again' };
  for (const outcome of ['done', 'nothing']) {
    const { text } = await bob('webhooks.redeliver-window', window);
    assert.equal((JSON.parse(text) as { outcome: string }).outcome, outcome, text);
  }
  const none = { id: `transaction:${randomUUID()}`, reason: 'mended' };
  const { text } = await ada('dead-letters.redrive', none);
  assert.equal((JSON.parse(text) as { outcome: string }).outcome, 'nothing', text);
  const lost = await bob('losses.acknowledge', { id: '7', reason: 'served' });
  assert.equal((JSON.parse(lost.text) as { outcome: string }).outcome, 'nothing', lost.text);
});

test('a webhook that was given up is dismissed once, leaves the list, and is shown with who and why', async (t) => {
  const console = await aConsole(t);
  const owner = console.store.open();
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  const id = `webhook:${randomUUID()}`;
  await owner.query(
    `INSERT INTO notifier.deliveries (event_id, partner_id, txn_id, body, state, attempts, finished_at)
     VALUES ($1, 'acme', $2, '{}', 'failed', 9, now())`,
    [id.slice(8), randomUUID()],
  );
  const { cookie } = await console.logIn(await console.anOperator('eve', 'viewer'));
  const page = async (path: string) => (await console.ask(path, { headers: { cookie } })).text;
  assert.match(await page('/dead-letters'), new RegExp(id));
  const asked = { id: [id], reason: 'a partner that is gone' };
  const answers = [
    ...(await Promise.all([
      ada('dead-letters.dismiss', asked),
      ada('dead-letters.dismiss', asked),
    ])),
    await bob('dead-letters.redrive', asked),
  ].map(({ text }) => JSON.parse(text) as { outcome: string; detail: string });
  assert.deepEqual(answers.map(({ outcome }) => outcome).sort(), ['done', 'nothing', 'nothing']);
  assert.match(answers[2]!.detail, /dismissed before, .* by ada: a partner that is gone/);
  assert.doesNotMatch(await page('/dead-letters'), new RegExp(id));
  const dismissed = await page('/dead-letters?show=dismissed');
  assert.match(dismissed, new RegExp(`${id}[^]*by ada: a partner that is gone`));
  assert.equal((await console.ask('/dead-letters?show=x', { headers: { cookie } })).status, 400);
  const [delivery] = await owner.query('SELECT state, attempts FROM notifier.deliveries');
  assert.deepEqual(delivery, { state: 'failed', attempts: 9 });
  const again = await bob('dead-letters.redrive', { ...asked, again: 'yes' });
  assert.equal((JSON.parse(again.text) as { outcome: string }).outcome, 'done', again.text);
});

test('an endpoint gets a new secret that is shown once; the one before it signs too, and another rotation has to be meant', async (t) => {
  const console = await aConsole(t);
  const owner = console.store.open();
  const webhookSecret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  const seed = { id: 'acme' as PartnerId, apiKey: 'a key', webhookUrl: 'https://acme.example' };
  await seedPartner(owner, { ...seed, webhookSecret }, parseWebhookKeys(testWebhookKeys));
  const [{ id: endpoint }] = (await owner.query(
    'SELECT endpoint_id AS id FROM partners.webhook_endpoints',
  )) as [{ id: string }];
  const act = await byToken(console, 'ada');
  const rotate = async (more: object) => {
    const fields = { partner: 'acme', endpoint, reason: 'it leaked', ...more };
    const { text } = await act('partners.rotate-secret', fields);
    return JSON.parse(text) as { outcome: string; detail: string; secret?: string };
  };
  const first = await rotate({});
  assert.match(first.secret ?? '', /^whsec_/, JSON.stringify(first));
  assert.match(first.detail, /signs too until 20/);
  const second = await rotate({});
  assert.equal(second.outcome, 'refused');
  assert.match(second.detail, /two secrets sign until 20/);
  assert.equal((await rotate({ endpoint: randomUUID() })).outcome, 'refused');
  assert.equal((await rotate({ again: 'yes' })).outcome, 'done');
  const kept = JSON.stringify(await owner.query('SELECT acts::text AS row FROM console.acts'));
  assert.ok(!kept.includes(first.secret!), 'a secret is in no record');
  const own = await owner.query(
    `SELECT done_by, why FROM partners.acts WHERE act = 'rotate-secret'`,
  );
  assert.deepEqual(own, Array(2).fill({ done_by: 'ada', why: 'it leaked' }));
});

test('the audits that were asked for are shown with what they found, and each id leads to its payment', async (t) => {
  const console = await aConsole(t);
  const id = randomUUID();
  await console.store.open().query(
    `INSERT INTO console.acts (form, act, target, done_by, role, why, outcome, detail, finished_at)
     VALUES ($1, 'audit.run', 'every layer', 'ada', 'operator', 'odd sums', 'done', $2, now()),
            ($3, 'losses.acknowledge', '7', 'ada', 'operator', 'served', 'nothing', '', now())`,
    [randomUUID(), `drift\nledger-not-accepted: ${id} <b>`, randomUUID()],
  );
  const { cookie } = await console.logIn(await console.anOperator('eve', 'viewer'));
  for (const path of ['/audit', '/acts/1']) {
    const { text } = await console.ask(path, { headers: { cookie } });
    assert.match(text, new RegExp(`ledger-not-accepted: <a href="/payments/${id}">`), path);
    assert.match(text, /&lt;b&gt;/);
    assert.match(text, /odd sums/);
    assert.doesNotMatch(text, /losses\.acknowledge/);
  }
});

test('an act whose part is away may have been done or not, and its record says so', async (t) => {
  const nowhere = 'postgres://triplock_operator:none@127.0.0.1:1/nothing';
  const console = await aConsole(t, { OPERATOR_DATABASE_URL: nowhere });
  const act = await byToken(console, 'ada');
  const { text } = await act('losses.acknowledge', { id: '7', reason: 'served' });
  assert.equal((JSON.parse(text) as { outcome: string }).outcome, 'unknown', text);
  assert.doesNotMatch(text, /none@/);
  assert.deepEqual(
    (await actsIn(console)).map(({ outcome }) => outcome),
    ['unknown'],
  );
});

for (const [point, made] of [
  ['console.act-begun', 0],
  ['console.acted', 1],
] as const) {
  test(`a console that dies at ${point} leaves an act of which nobody knows more than that it began`, async (t) => {
    const console = await aConsole(t, { CRASH_POINTS: `${point}=kill` });
    const act = await byToken(console, 'ada');
    await assert.rejects(act('partners.add', { partner: 'acme', reason: 'new' }));
    await console.service.ended;
    const rows = await actsIn(console);
    assert.deepEqual(
      rows.map(({ outcome, target }) => [outcome, target]),
      [['begun', 'acme']],
    );
    const partners = await console.store.open().query('SELECT FROM partners.partners');
    assert.equal(partners.length, made);
  });
}
