import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test, type TestContext } from 'node:test';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { createTestStripe, testWebhookKeys } from '@triplock/testing';
import { aCardPayment, endedPayments } from '@triplock/inspect/test';
import { lettersMax } from './kinds-of-acts.ts';
import { aConsole, aSharedConsole, assertDescribed, type AConsole } from '../test/a-console.ts';
import { type Role } from '@triplock/inspect';

const anEmptyConsole = aSharedConsole({ before, after });

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

test('a partner gets a key that is shown once, and the act is kept with who and why', async () => {
  const console = await anEmptyConsole();
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

test('an act needs a reason and fields that make sense, else nothing is recorded or done', async () => {
  const console = await anEmptyConsole();
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
    ['payments.give-back', { reason: 'told as failed' }],
    ['payments.give-back', { reason: 'told as failed', id: 'order-1' }],
    ['payments.give-back', { id: aCardPayment().txnId }],
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

test('a form that is sent twice, also at once, acts once', async () => {
  const console = await anEmptyConsole();
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

test('a form that was sent begins nothing else, and nothing for anybody else', async () => {
  const console = await anEmptyConsole();
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  for (const partner of ['acme', 'globex']) await ada('partners.add', { partner, reason: 'new' });
  const form = randomUUID();
  const sent = { form, partner: 'acme', reason: 'asked for', allowed: 'yes' };
  assert.equal((await ada('partners.card-numbers', sent)).status, 200);
  for (const other of [
    () => ada('partners.rotate-key', { form, partner: 'acme', reason: 'asked for' }),
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

test('an act takes as many dead letters as it says', async () => {
  const act = await byToken(await anEmptyConsole(), 'ada');
  const id = Array.from({ length: lettersMax }, () => `webhook:${randomUUID()}.99`);
  const { status, text } = await act('dead-letters.redrive', { id, reason: 'mended' });
  assert.equal(status, 200, text);
  assert.equal((JSON.parse(text) as { outcome: string }).outcome, 'nothing');
});

test('a webhook that was given up is redriven once, whoever asks again, and nothing is no act on anything', async () => {
  const console = await anEmptyConsole();
  const owner = console.store.open();
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  const eventId = randomUUID();
  await owner.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts,
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
  const states = await owner.query('SELECT state, attempts FROM webhooks.deliveries');
  assert.deepEqual(states, [{ state: 'pending', attempts: 9 }]);
  const own = await owner.query('SELECT subject, why FROM auditor.operator_acts');
  assert.deepEqual(own, [{ subject: `webhook:${eventId}`, why: asked.reason }]);

  await owner.query(`UPDATE webhooks.deliveries SET state = 'failed', finished_at = now()`);
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

test('a webhook that was given up is dismissed once, leaves the list, and is shown with who and why', async () => {
  const console = await anEmptyConsole();
  const owner = console.store.open();
  const [ada, bob] = [await byToken(console, 'ada'), await byToken(console, 'bob')];
  const id = `webhook:${randomUUID()}`;
  await owner.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts, finished_at)
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
  const [delivery] = await owner.query('SELECT state, attempts FROM webhooks.deliveries');
  assert.deepEqual(delivery, { state: 'failed', attempts: 9 });
  const again = await bob('dead-letters.redrive', { ...asked, again: 'yes' });
  assert.equal((JSON.parse(again.text) as { outcome: string }).outcome, 'done', again.text);
});

/** A console that may give back, and payments that have ended. */
async function aGivingConsole(t: TestContext, settings: Record<string, string> = {}) {
  const stripe = await createTestStripe(t);
  const atStripe = { STRIPE_API_URL: stripe.url, OPERATOR_STRIPE_API_KEY: stripe.apiKey };
  const console = await aConsole(t, { ...atStripe, ...settings });
  return { console, ...endedPayments(console.store, stripe) };
}

type GivenBack = {
  outcome: string;
  detail: string;
  result: { intents: { intentId: string; act: string; outcome: string }[] };
};

test('money of a payment that had failed is given back once by a button of its page, with who and why', async (t) => {
  const { console, aCard, anIntent, acts, atProvider } = await aGivingConsole(t);
  const payment = aCardPayment();
  const intentId = await anIntent(payment);
  await aCard('failed', intentId, payment);
  const path = `/payments/${payment.txnId}`;
  const pageFor = async (name: string, role: Role) => {
    const { cookie, csrf } = await console.logIn(await console.anOperator(name, role));
    return { cookie, csrf, page: (await console.ask(path, { headers: { cookie } })).text };
  };
  const { cookie, csrf, page } = await pageFor('ada', 'admin');
  const [, form] = /value="([^"]+)" formaction="\/acts\/payments\.give-back"/.exec(page) ?? [];
  assert.ok(form, page);
  for (let time = 1; time <= 2; time += 1) {
    const body = { csrf, form, id: payment.txnId, reason: 'told as failed' };
    const headers = { cookie, origin: console.origin };
    const asking = { method: 'POST', headers, body };
    const answer = await console.ask('/acts/payments.give-back', asking);
    assert.equal(answer.status, 303, answer.text);
    const record = await console.ask(String(answer.headers['location']), { headers: { cookie } });
    assert.match(record.text, /took 77\.77 EUR: to be refunded: done/);
    assert.deepEqual((await atProvider()).refunds, { eur: { count: 1, amount: 7_777 } });
  }
  const subject = `intent:${payment.txnId}/${intentId}`;
  const act = { act: 'give-back', subject, done_by: 'ada', why: 'told as failed' };
  assert.deepEqual(await acts(), [act]);
  assert.partialDeepStrictEqual(await actsIn(console), [
    { act: 'payments.give-back', target: payment.txnId, done_by: 'ada', outcome: 'done' },
  ]);
  const operator = await pageFor('bob', 'operator');
  assert.doesNotMatch(operator.page, /give-back/);
});

test('a program gives back what is held, and is told of each intent what became of it', async (t) => {
  const { console, owner, aCard, anIntent, atProvider, acts } = await aGivingConsole(t);
  const act = await byToken(console, 'ada');
  const giveBack = async ({ txnId }: { txnId: string }) => {
    const { status, text } = await act('payments.give-back', { id: txnId, reason: 'told so' });
    assert.equal(status, 200, text);
    return JSON.parse(text) as GivenBack;
  };
  const payment = aCardPayment();
  const own = await anIntent(payment);
  const another = await anIntent(payment, { capture_method: 'manual' });
  await aCard('succeeded', own, payment);
  await owner.query(
    `INSERT INTO auditor.provider_journal
       (provider, kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
     VALUES ('stripe', 'intent', $1, 'pending', 7777, 'EUR', now(), $1, $2, $3)`,
    [another, payment.txnId, payment.partnerId],
  );
  const given = await giveBack(payment);
  assert.equal(given.outcome, 'done', given.detail);
  const told = given.result.intents.map(({ intentId, ...intent }) => [intentId, intent]);
  assert.deepEqual(Object.fromEntries(told), {
    [own]: { act: 'none', outcome: 'nothing' },
    [another]: { act: 'cancel', outcome: 'done' },
  });
  assert.deepEqual((await atProvider()).held, {});
  assert.equal((await giveBack(payment)).outcome, 'nothing');
  const pending = aCardPayment();
  await aCard('pending', await anIntent(pending), pending);
  const early = await giveBack(pending);
  assert.deepEqual([early.outcome, /is pending/.test(early.detail)], ['refused', true]);
  const nobodys = await giveBack(aCardPayment());
  assert.deepEqual(
    [nobodys.outcome, /no payment of this ledger that a provider charges/.test(nobodys.detail)],
    ['refused', true],
  );
  assert.equal((await acts()).length, 1);
});

test('without a key that may give back a console gives nothing back, and with a provider that is away nobody knows', async (t) => {
  const payment = aCardPayment();
  for (const [settings, outcome, said] of [
    [{ OPERATOR_STRIPE_API_KEY: '' }, 'refused', /OPERATOR_STRIPE_API_KEY is not set/],
    [{ STRIPE_API_URL: 'http://127.0.0.1:1' }, 'unknown', /nobody knows how pi_1 is/],
  ] as const) {
    const { console, aCard, acts } = await aGivingConsole(t, settings);
    await aCard('failed', 'pi_1', payment);
    const act = await byToken(console, 'ada');
    const asked = { id: payment.txnId, reason: 'told as failed' };
    const { text } = await act('payments.give-back', asked);
    const answer = JSON.parse(text) as GivenBack;
    assert.equal(answer.outcome, outcome, text);
    assert.match(answer.detail, said);
    assert.deepEqual(await acts(), []);
  }
});

test('an endpoint gets a new secret that is shown once; the one before it signs too, and another rotation has to be meant', async () => {
  const console = await anEmptyConsole();
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

test('the audits that were asked for are shown with what they found, and each id leads to its payment', async () => {
  const console = await anEmptyConsole();
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
