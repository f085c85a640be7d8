import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as ask, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { after, before, test, type TestContext } from 'node:test';
import { createLogger, createMetrics, withDeadline, type Loop } from '@triplock/runtime';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  type TestStripe,
} from '@triplock/testing';
import { noteDispute } from './disputes.ts';
import { workerMetrics, type ProviderEventOutcome } from './metrics.ts';
import { bodyBytesMax, connectionLimits, graceMs } from './provider-reports.ts';
import { workerAt } from './providers.ts';
import { aWebhook, receivingAt, serve } from './test/at-stripe.ts';
import { providersWith, recordOf, refundRecordOf } from './test/pipeline.ts';
import type { Worker } from './worker.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const aReceiver = receivingAt(() => stripe);

const authenticate = (intentId: string, outcome: 'succeeded' | 'failed') =>
  stripe.control('POST', `/payment_intents/${intentId}/authenticate`, { outcome });

const dispute = (intentId: string) =>
  stripe.control<{ id: string }>('POST', `/payment_intents/${intentId}/dispute`, { amount: 250 });

const undelivered = async () =>
  (await stripe.control<{ undelivered: unknown[] }>('GET', '/webhooks')).undelivered;

/** Stripe sends again, an hour later and later, what was not received. */
const everyReportCame = () =>
  eventually(async () => {
    await stripe.control('POST', '/clock', { advanceMs: 3_600_000 });
    return (await undelivered()).length === 0;
  });

test('a customer who authenticates, or fails to, is reported by Stripe’s own webhook', async (context) => {
  const { waiting, becomes } = await aReceiver(context);
  const acts = await waiting('pm_card_authenticationRequired');
  await authenticate(acts.intentId, 'succeeded');
  await becomes(acts.payment.txnId, 'succeeded');
  const fails = await waiting('pm_card_authenticationRequired');
  await authenticate(fails.intentId, 'failed');
  const row = await becomes(fails.payment.txnId, 'failed');
  assert.equal(row.failure?.code, 'payment_intent_authentication_failure');
});

test('a bank that decides late is reported, for a payment and for a refund', async (context) => {
  const { append, allCommitted, waiting, becomes, followUps } = await aReceiver(context);
  await stripe.control('PUT', '/settings', { settleAfterMs: 3_600_000 });
  const bank = await waiting('pm_usBankAccount_success', 'USD');
  await stripe.control('POST', '/settle', { id: bank.intentId });
  await becomes(bank.payment.txnId, 'succeeded');

  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_pendingRefund' });
  const refund = aRefund(payment, { amount: 400n });
  await append(recordOf(payment));
  await append(refundRecordOf(refund));
  await allCommitted();
  // A worker that was slow to charge the payment has the refund wait, and wakes it after that.
  const refundId = await eventually(async () => {
    const row = await followUps.find(refund.txnId);
    assert.equal(row?.state, 'pending');
    return row.provider !== undefined && 'refundId' in row.provider && row.provider.refundId;
  });
  await stripe.control('POST', '/settle', { id: refundId });
  await becomes(refund.txnId, 'succeeded');
});

test('each dispute is noted and told once, in copies, any order, and before its payment is final', async (context) => {
  const { configure, waiting, becomes, counted, owner } = await aReceiver(context);
  const { payment, intentId } = await waiting('pm_card_authenticationRequired');
  await configure({ paused: true });
  await authenticate(intentId, 'succeeded');
  const { id } = await dispute(intentId);
  await stripe.control('POST', `/disputes/${id}/close`, { outcome: 'lost' });
  const another = await dispute(intentId);
  await configure({ copies: 3, order: 'reversed' });
  await becomes(payment.txnId, 'succeeded');
  await everyReportCame();
  const told = await owner.query<{ said: string; dispute: string }>(
    `SELECT concat_ws(' ', event_type, sequence, dispute ->> 'amount', dispute ->> 'reason') AS said,
            dispute ->> 'id' AS dispute
     FROM ledger.outbox CROSS JOIN LATERAL (SELECT payload::json #> '{data,dispute}' AS dispute) AS its
     WHERE txn_id = $1 ORDER BY sequence`,
    [payment.txnId],
  );
  const said = [3, 4].map((at) => `payment.disputed ${at} 250 fraudulent`);
  assert.deepEqual(told.map((each) => each.said).slice(1), ['payment.succeeded 2', ...said]);
  const ids = told.slice(2).map((each) => each.dispute);
  assert.deepEqual(ids.toSorted(), [id, another.id].toSorted());
  assert.equal(counted().disputed, 2);
  const ends = () => owner.query('SELECT dispute_id, ended FROM ledger.dispute_ends');
  assert.deepEqual(await ends(), [{ dispute_id: id, ended: 'lost' }]);
  await stripe.control('POST', `/disputes/${another.id}/close`, { outcome: 'won' });
  await everyReportCame();
  assert.deepEqual(await ends(), [
    { dispute_id: id, ended: 'lost' },
    { dispute_id: another.id, ended: 'won' },
  ]);
  assert.equal(counted()['dispute-ended'], 1);
});

test('what was charged by a call whose answer was lost is settled by Stripe’s own report', async (context) => {
  const { append, becomes } = await aReceiver(context);
  await stripe.control('POST', '/faults', {
    fault: 'half-body',
    operation: 'payment_intents.create',
    count: 1,
  });
  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });
  await append(recordOf(payment));
  await becomes(payment.txnId, 'succeeded');
});

test('a dispute that comes before anybody has stored its intent is heard of again, and one of nobody’s is not', async (context) => {
  const { append, crashPoints, configure, becomes, counted, owner } = await aReceiver(context);
  await configure({ paused: true });
  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });
  crashPoints.arm({ name: 'worker.charged', action: { do: 'pause', pauseMs: 3_000 } });
  await append(recordOf(payment));
  await eventually(async () => crashPoints.hits()['worker.charged'] === 1);
  const asked = async (path: string, parameters?: Record<string, string>) => {
    const answer = await fetch(`${stripe.url}/v1/${path}`, {
      headers: { authorization: `Bearer ${stripe.apiKey}` },
      ...(parameters && { method: 'POST', body: new URLSearchParams(parameters) }),
    });
    return (await answer.json()) as { id: string; data: { id: string }[] };
  };
  const [intent] = (await asked('payment_intents?limit=1')).data;
  const { id } = await dispute(intent!.id);
  const others = { amount: '1250', currency: 'eur', payment_method: 'pm_card_visa' };
  await dispute(
    (
      await asked('payment_intents', {
        ...others,
        confirm: 'true',
        return_url: 'https://shop.example/',
      })
    ).id,
  );
  // The disputes come first.
  await configure({ order: 'reversed' });
  await becomes(payment.txnId, 'succeeded');
  await everyReportCame();
  const told = await owner.query<{ dispute: string }>(
    `SELECT payload::json #>> '{data,dispute,id}' AS dispute FROM ledger.outbox
     WHERE event_type = 'payment.disputed'`,
  );
  assert.deepEqual(told, [{ dispute: id }]);
  assert.equal(counted().disputed, 1);
  assert.ok(counted()['nothing-waits']! > 0);
});

test('a dispute whose intent is stored while Stripe is asked whose it is, is heard of again', async (context) => {
  const { append, crashPoints, becomes, worker } = await aReceiver(context);
  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });
  crashPoints.arm({ name: 'worker.charged', action: { do: 'pause', pauseMs: 1_000 } });
  await append(recordOf(payment));
  await eventually(async () => crashPoints.hits()['worker.charged'] === 1);
  const { provider } = workerAt(worker, 'stripe');
  const transactionOf: typeof provider.transactionOf = async (intentId) => {
    await becomes(payment.txnId, 'succeeded');
    return provider.transactionOf!(intentId);
  };
  const providers = providersWith({ stripe: { ...provider, transactionOf } });
  const asked = workerAt({ ...worker, providers }, 'stripe');
  const { money } = payment.details;
  const listed = await provider.findIntent({ ...payment, money });
  assert.ok(listed.outcome === 'found');
  const about = { disputeId: 'dp_1', amount: 250n, currency: 'EUR', reason: 'fraudulent' };
  const note = () => noteDispute(asked, { intentId: listed.intentId, ...about });
  await assert.rejects(note, /is disputed/);
  assert.equal(await note(), 'disputed');
});

test('a worker that fails once a dispute is noted hears of it again, and has told of it once', async (context) => {
  const { crashPoints, waiting, becomes, counted, owner } = await aReceiver(context);
  const { payment, intentId } = await waiting('pm_card_authenticationRequired');
  await authenticate(intentId, 'succeeded');
  await becomes(payment.txnId, 'succeeded');
  crashPoints.arm({ name: 'worker.disputed', action: { do: 'throw' } });
  await dispute(intentId);
  await everyReportCame();
  assert.equal(crashPoints.hits()['worker.disputed'], 1);
  assert.equal(counted().duplicate, 1);
  const told = `SELECT FROM ledger.outbox WHERE txn_id = $1 AND event_type = 'payment.disputed'`;
  assert.equal((await owner.query(told, [payment.txnId])).length, 1);
});

test('a refund that had succeeded and fails later changes nothing, and raises an alarm', async (context) => {
  const { append, allCommitted, followUps, metrics, becomes } = await aReceiver(context);
  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_refundFail' });
  const refund = aRefund(payment, { amount: 400n });
  await append(recordOf(payment));
  await append(refundRecordOf(refund));
  await allCommitted();
  const before = await becomes(refund.txnId, 'succeeded');
  const undone = async () => (await metrics.refundsUndone.get()).values[0]?.value ?? 0;
  assert.equal(await undone(), 0);
  await stripe.control('POST', '/settle', {});
  await eventually(async () => (await undone()) > 0);
  assert.deepEqual(await followUps.find(refund.txnId), before);
});

test('a refund that fails before it succeeded, or is another one than ours, raises no alarm', async (context) => {
  const { append, allCommitted, followUps, metrics, url } = await aReceiver(context);
  for (const paymentMethod of ['pm_card_pendingRefund', 'pm_card_refundFail']) {
    const payment = aPayment({ amount: 1_250n, paymentMethod });
    const refund = aRefund(payment, { amount: 400n });
    for (const each of [recordOf(payment), refundRecordOf(refund)]) await append(each);
    await allCommitted();
    const { txnId } = refund;
    const row = (await followUps.find(txnId))!;
    const id = row.state === 'pending' ? row.provider!.refundId : 're_other';
    const ours = { object: 'refund', payment_intent: 'pi_1', metadata: { txn_id: txnId } };
    const data = { object: { ...ours, id, status: 'failed' } };
    const webhook = aWebhook('', { more: { id: `evt_${id}`, type: 'refund.failed', data } });
    assert.equal((await fetch(url, webhook)).status, 200);
  }
  assert.equal((await metrics.refundsUndone.get()).values[0]?.value ?? 0, 0);
});

/** Somebody with a right at the provider confirms another intent of a payment of ours. */
async function anotherIntentOf(txnId: string, parameters: Record<string, string>) {
  const headers = { authorization: `Bearer ${stripe.apiKey}` };
  const money = { amount: '1250', currency: 'eur', 'metadata[txn_id]': txnId };
  const method = { payment_method: 'pm_card_visa', 'payment_method_types[]': 'card' };
  const body = new URLSearchParams({ ...money, ...method, confirm: 'true', ...parameters });
  const answer = await fetch(`${stripe.url}/v1/payment_intents`, { method: 'POST', headers, body });
  assert.equal(answer.status, 200, await answer.clone().text());
  return (await answer.json()) as { id: string };
}

for (const [what, parameters] of [
  ['taken', {}],
  ['held', { capture_method: 'manual' }],
] as const) {
  test(`money that is ${what} for a payment that had ended without it raises an alarm, and changes nothing`, async (context) => {
    const { append, allCommitted, ledger, metrics, counted } = await aReceiver(context);
    const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_chargeDeclined' });
    await append(recordOf(payment));
    await allCommitted();
    const before = await ledger.find(payment.txnId);
    assert.equal(before?.state, 'failed');
    const paidAfterEnd = async () => (await metrics.paidAfterEnd.get()).values[0]?.value ?? 0;
    assert.equal(await paidAfterEnd(), 0);
    await anotherIntentOf(payment.txnId, parameters);
    await eventually(async () => (await paidAfterEnd()) > 0);
    assert.deepEqual(await ledger.find(payment.txnId), before);
    assert.equal(counted().woken, undefined);
  });
}

test('a report that is late raises no alarm: its payment was paid, or what it held was let go', async (context) => {
  const { append, allCommitted, becomes, metrics, configure } = await aReceiver(context);
  const paid = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });
  const failed = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_chargeDeclined' });
  for (const each of [paid, failed]) await append(recordOf(each));
  await allCommitted();
  await becomes(paid.txnId, 'succeeded');
  await configure({ paused: true });
  const { id } = await anotherIntentOf(failed.txnId, { capture_method: 'manual' });
  const headers = { authorization: `Bearer ${stripe.apiKey}` };
  await fetch(`${stripe.url}/v1/payment_intents/${id}/cancel`, { method: 'POST', headers });
  await configure({ copies: 2 });
  await stripe.control('POST', '/webhooks/replay', {});
  await eventually(async () => (await undelivered()).length === 0);
  assert.equal((await metrics.paidAfterEnd.get()).values[0]?.value ?? 0, 0);
});

test('a report of money that its payment ended by costs nothing but the look that reports share', async (context) => {
  const { append, allCommitted, becomes, ledger, url, counted } = await aReceiver(context);
  const payment = aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });
  await append(recordOf(payment));
  await allCommitted();
  const row = await becomes(payment.txnId, 'succeeded');
  const intentId = (row.provider as { intentId: string }).intentId;
  const find = context.mock.method(ledger, 'find');
  const before = counted()['nothing-waits'] ?? 0;
  const metadata = { txn_id: payment.txnId };
  const data = { object: { object: 'payment_intent', id: intentId, metadata } };
  assert.equal((await fetch(url, aWebhook('', { more: { data } }))).status, 200);
  assert.ok(counted()['nothing-waits']! > before);
  assert.equal(find.mock.callCount(), 0);
});

test('the ledger is asked about an event once its worker had time to settle, and the answer waits for it', async (context) => {
  const askedAt: number[] = [];
  const wakeDue = async () => {
    askedAt.push(performance.now());
    return { outcome: 'nothing-waits' } as const;
  };
  const { url, counted } = await aReceiver(context, { wakeDue });
  const sentAt = performance.now();
  assert.equal((await fetch(url, aWebhook('pi_1'))).status, 200);
  // A timer may fire a millisecond early.
  assert.ok(askedAt[0]! - sentAt >= graceMs - 1);
  assert.deepEqual([askedAt.length, counted()], [1, { 'nothing-waits': 1 }]);
});

test('copies in any order have one effect, and are counted as what they are', async (context) => {
  const { configure, waiting, becomes, counted, owner } = await aReceiver(context);
  const { payment, intentId } = await waiting('pm_card_authenticationRequired');
  await configure({ paused: true });
  await authenticate(intentId, 'succeeded');
  await configure({ copies: 4, order: 'reversed' });
  await becomes(payment.txnId, 'succeeded');
  const allCame = () => eventually(async () => (await undelivered()).length === 0);
  await allCame();
  await stripe.control('POST', '/webhooks/replay', {});
  await allCame();
  const { woken, duplicate = 0, ['nothing-waits']: nothing = 0, forged } = counted();
  assert.equal(woken, 1);
  assert.equal(duplicate + nothing, 7);
  assert.equal(forged, undefined);
  const [counts] = await owner.query(`
    SELECT (SELECT count(*) FROM ledger.entries)::int AS entries,
           (SELECT count(*) FROM ledger.outbox)::int AS events,
           (SELECT count(*) FROM ledger.provider_events)::int AS remembered`);
  assert.deepEqual(counts, { entries: 1, events: 2, remembered: 1 });
});

test('what is forged, unsigned, old, too large or not ours is refused or ignored, and writes nothing', async (context) => {
  const { url, waiting, owner, counted } = await aReceiver(context);
  const { intentId } = await waiting('pm_card_authenticationRequired');
  const state = () =>
    owner.query(`
      SELECT version, due_at, (SELECT count(*) FROM ledger.provider_events) AS events
      FROM ledger.transactions`);
  const before = await state();
  const genuine = aWebhook(intentId);
  const sent: [number, string, RequestInit][] = [
    [400, url, { ...genuine, headers: {} }],
    [400, url, { ...genuine, headers: { 'stripe-signature': 't=1,v1=00' } }],
    [400, url, { ...genuine, body: `${genuine.body} ` }],
    [400, url, aWebhook(intentId, { by: 'whsec_other' })],
    [400, url, aWebhook(intentId, { ageSeconds: 301 })],
    [400, url, aWebhook(intentId, { ageSeconds: -400 })],
    [400, url, aWebhook(intentId, { body: 'null' })],
    [413, url, { ...genuine, body: ' '.repeat(bodyBytesMax + 1) }],
    [404, url.replace('/stripe/', '/other/'), genuine],
    [405, url, { method: 'GET' }],
    [405, url, { ...genuine, method: 'QUERY' }],
    [200, url, aWebhook('pi_of_nobody')],
    [200, url, aWebhook(intentId, { more: { livemode: true } })],
    [200, url, aWebhook(intentId, { more: { account: 'acct_other' } })],
    [200, url, aWebhook(intentId, { more: { type: 'payment_intent.created' } })],
  ];
  for (const [status, to, request] of sent) {
    const answer = await fetch(to, request);
    assert.equal(answer.status, status, JSON.stringify(request).slice(0, 200));
    await answer.body?.cancel();
  }
  assert.deepEqual(await state(), before);
  const { forged, foreign, ignored, ['nothing-waits']: nothing } = counted();
  assert.deepEqual({ forged, foreign, nothing }, { forged: 7, foreign: 2, nothing: 1 });
  // Stripe itself reported the steps before.
  assert.ok(ignored! >= 1);

  // Its content is not believed either: the customer has not acted.
  const believed = await fetch(url, aWebhook(intentId, { by: 'whsec_before_it' }));
  assert.equal(believed.status, 200);
  await eventually(async () => {
    const [row] = await owner.query<{ version: number; state: string }>(
      'SELECT version, state FROM ledger.transactions',
    );
    assert.equal(row!.state, 'pending');
    return row!.version > (before[0] as { version: number }).version;
  });
});

test('while the ledger is away, or hangs, Stripe is asked to send it again', async (context) => {
  const isAway = () => Promise.reject(new Error('the database is away'));
  for (const wakeDue of [isAway, () => new Promise<never>(() => undefined)]) {
    const { url, counted } = await aReceiver(context, { wakeDue });
    const answer = await fetch(url, aWebhook('pi_1'));
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '5']);
    assert.deepEqual(counted(), {});
  }
});

/** The server with nobody behind it, and what it counts and logs. */
async function aServer(context: TestContext) {
  const metrics = workerMetrics(createMetrics('test'));
  const quiet = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const warn = context.mock.method(quiet, 'warn');
  const port = await serve(
    context,
    { metrics, logger: quiet, providers: providersWith({}) } as Worker,
    {} as Loop,
  );
  const counted = (outcome: ProviderEventOutcome) => metrics.providerEvents.counted()[outcome] ?? 0;
  const address = { host: '127.0.0.1', port, method: 'POST', path: '/stripe/webhooks' };
  return { address, counted, warned: () => warn.mock.callCount() };
}

const statusOf = async (request: ClientRequest) => {
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
};

test('who breaks off in the middle is counted and makes no noise', async (context) => {
  const { address, counted, warned } = await aServer(context);
  const socket = connect(address.port, address.host);
  socket.write(`POST ${address.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{`);
  // Its beginning has arrived when a request after it is answered.
  await fetch(`http://${address.host}:${address.port}/healthz`);
  socket.destroy();
  await eventually(async () => counted('aborted') === 1);
  assert.equal(warned(), 0);
});

test('who sends too much is refused, with a length and without', async (context) => {
  const { address, counted, warned } = await aServer(context);
  const whole = Buffer.alloc(16 * bodyBytesMax, ' ');
  const close = { connection: 'close' };
  for (const headers of [{}, { 'content-length': whole.length }, close]) {
    const request = ask({ ...address, headers });
    const status = statusOf(request);
    request.end(whole);
    assert.equal(await status, 413);
  }
  assert.deepEqual([counted('too-large'), warned()], [3, 0]);
});

test('as many half-sent requests as there may be connections keep no webhook and no balancer out', async (context) => {
  const { address, warned } = await aServer(context);
  const head = `POST ${address.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n`;
  const halfSent = Array.from({ length: connectionLimits.connectionsMax }, (_, at) => {
    const socket = connect(address.port, address.host).on('error', () => undefined);
    context.after(() => socket.destroy());
    socket.resume().write(at % 2 === 0 ? head : `${head}\r\n{`);
    return { socket, ended: once(socket, 'close') };
  });
  await Promise.all(halfSent.map(({ socket }) => once(socket, 'connect')));
  const url = `http://${address.host}:${address.port}`;
  const genuine = aWebhook('pi_1', { more: { type: 'payment_intent.created' } });
  for (let webhook = 0; webhook < 5; webhook += 1) {
    assert.equal((await fetch(`${url}${address.path}`, genuine)).status, 200);
    assert.equal((await fetch(`${url}/healthz`, { headers: { connection: 'close' } })).status, 200);
  }
  assert.ok(halfSent.filter(({ socket }) => !socket.closed).length > 240, 'the others still hang');
  const heads = halfSent.filter((_, at) => at % 2 === 0).map(({ ended }) => ended);
  await withDeadline(Promise.all(heads), { ms: 20_000, what: 'the limit of a head' });
  assert.equal(warned(), 0);
});
