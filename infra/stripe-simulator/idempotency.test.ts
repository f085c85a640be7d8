import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aSimulator, type RawAnswer } from './test/simulator.ts';

// https://docs.stripe.com/api/idempotent_requests ("requests" below) and
// https://docs.stripe.com/error-low-level ("errors" below).

const path = '/v1/payment_intents';
const form = 'amount=500&currency=eur&payment_method_types[]=card';
const key = (value: string) => ({ 'idempotency-key': value });
const dayMs = 24 * 60 * 60 * 1_000;

test('requests: a retry gets the same status and the same bytes, and says that it is a replay', async (t) => {
  const { send, stripe } = await aSimulator(t);
  const first = await send({ path, form, headers: key('k') });
  assert.equal(first.headers.get('idempotent-replayed'), null);
  const again = await send({ path, form, headers: key('k') });
  assert.deepEqual([again.status, again.text], [first.status, first.text]);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.headers.get('original-request'), first.headers.get('request-id'));
  assert.notEqual(again.headers.get('request-id'), first.headers.get('request-id'));
  assert.equal((await stripe.paymentIntents.list()).data.length, 1);
});

test('requests: the replay shows what was, not what is', async (t) => {
  const { send, stripe } = await aSimulator(t);
  const first = await send({ path, form, headers: key('k') });
  await stripe.paymentIntents.confirm(first.json.id, { payment_method: 'pm_card_visa' });
  const again = await send({ path, form, headers: key('k') });
  assert.equal(again.text, first.text);
});

test('requests: other parameters under the same key are refused, in whatever order they came', async (t) => {
  const { send } = await aSimulator(t);
  await send({ path, form, headers: key('k') });
  const reordered = 'currency=eur&payment_method_types[0]=card&amount=500';
  const same = await send({ path, form: reordered, headers: key('k') });
  assert.equal(same.headers.get('idempotent-replayed'), 'true');
  const other = await send({ path, form: `${form}&description=x`, headers: key('k') });
  assert.deepEqual([other.status, other.json.error.type], [400, 'idempotency_error']);
  // Not even as invalid parameters: the idempotency layer comes before validation.
  const invalid = await send({ path, form: 'amount=x', headers: key('k') });
  assert.equal(invalid.json.error.type, 'idempotency_error');
});

test('requests: a key belongs to one endpoint', async (t) => {
  const { send } = await aSimulator(t);
  const { json } = await send({ path, form, headers: key('k') });
  const other = await send({ path: `${path}/${json.id}/cancel`, headers: key('k') });
  assert.deepEqual([other.status, other.json.error.type], [400, 'idempotency_error']);
  assert.match(other.json.error.message, /same endpoint/);
});

test('requests: what fails validation is not kept, so the key is free for the right request', async (t) => {
  const { send } = await aSimulator(t);
  for (const wrong of ['currency=eur', 'amount=0&currency=eur', `${form}&colour=red`]) {
    const refused = await send({ path, form: wrong, headers: key('k') });
    assert.equal(refused.status, 400, wrong);
  }
  const right = await send({ path, form, headers: key('k') });
  assert.equal(right.status, 200);
  assert.equal(right.headers.get('idempotent-replayed'), null);
});

test('errors: "regardless of what they were": a decline is kept, and so is a state that was wrong', async (t) => {
  const { send } = await aSimulator(t);
  const declining = `${form}&confirm=true&payment_method=pm_card_chargeDeclined`;
  const declined = await send({ path, form: declining, headers: key('d') });
  assert.equal(declined.status, 402);
  const again = await send({ path, form: declining, headers: key('d') });
  assert.deepEqual([again.status, again.text], [402, declined.text]);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');

  const paid = await send({ path, form: `${form}&confirm=true&payment_method=pm_card_visa` });
  const confirm = { path: `${path}/${paid.json.id}/confirm`, headers: key('c') };
  assert.equal((await send(confirm)).json.error.code, 'payment_intent_unexpected_state');
  assert.equal((await send(confirm)).headers.get('idempotent-replayed'), 'true');
});

test('errors: a 500 is kept, whether it left an effect or not', async (t) => {
  const { send, stripe, control } = await aSimulator(t);
  for (const [fault, left] of [
    ['error', 0],
    ['error-after', 1],
  ] as const) {
    await control('POST', '/faults', { fault, operation: 'payment_intents.create', count: 1 });
    const first = await send({ path, form, headers: key(fault) });
    const again = await send({ path, form, headers: key(fault) });
    assert.deepEqual([first.status, again.status, again.text], [500, 500, first.text]);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(first.headers.get('stripe-should-retry'), 'false');
    assert.equal((await stripe.paymentIntents.list()).data.length, left);
  }
});

test('errors: what a limiter refuses is not kept: limiters run before the idempotency layer', async (t) => {
  const { send, control } = await aSimulator(t);
  for (const fault of ['rate-limit', 'unavailable', 'lock-timeout']) {
    await control('POST', '/faults', { fault, count: 1 });
    const refused = await send({ path, form, headers: key(fault) });
    assert.ok(refused.status === 429 || refused.status === 503);
    const through = await send({ path, form, headers: key(fault) });
    assert.deepEqual([through.status, through.headers.get('idempotent-replayed')], [200, null]);
  }
});

test('errors: a 401 is not kept', async (t) => {
  const { send } = await aSimulator(t);
  const headers = { ...key('k'), authorization: 'Bearer nonsense' };
  assert.equal((await send({ path, form, headers })).status, 401);
  assert.equal((await send({ path, form, headers: key('k') })).status, 200);
});

test('requests: of many at once under one key, one is executed and the others get 409', async (t) => {
  const { send, stripe, control } = await aSimulator(t);
  const hold = await control<{ id: string }>('POST', '/faults', { fault: 'hold', count: 1 });
  const hurried: RawAnswer[] = [];
  const all = Array.from({ length: 10 }, async () => {
    const answer = await send({ path, form, headers: key('k') });
    if (hurried.push(answer) === 9) await control('DELETE', `/faults/${hold.id}`);
    return answer;
  });
  const answers = await Promise.all(all);
  for (const conflict of hurried.slice(0, 9)) {
    assert.deepEqual([conflict.status, conflict.json.error.code], [409, 'idempotency_key_in_use']);
    assert.equal(conflict.headers.get('stripe-should-retry'), 'true');
  }
  const executed = answers.find(({ status }) => status === 200)!;
  assert.equal((await stripe.paymentIntents.list()).data.length, 1);
  // The conflict was not kept: the key answers for the one that was executed.
  assert.equal((await send({ path, form, headers: key('k') })).text, executed.text);
});

test('requests: keys are forgotten after 24 hours and not before', async (t) => {
  const { send, control } = await aSimulator(t);
  const first = await send({ path, form, headers: key('k') });
  await control('POST', '/clock', { advanceMs: dayMs - 60_000 });
  assert.equal((await send({ path, form, headers: key('k') })).text, first.text);
  await control('POST', '/clock', { advanceMs: 60_000 });
  const new_ = await send({ path, form, headers: key('k') });
  assert.equal(new_.headers.get('idempotent-replayed'), null);
  assert.notEqual(new_.json.id, first.json.id);
});

test('requests: keys have up to 255 characters', async (t) => {
  const { send } = await aSimulator(t);
  assert.equal((await send({ path, form, headers: key('k'.repeat(255)) })).status, 200);
  assert.equal((await send({ path, form, headers: key('k'.repeat(256)) })).status, 400);
});

test('requests: a key on a GET has no effect', async (t) => {
  const { send, stripe } = await aSimulator(t);
  const { id } = await stripe.paymentIntents.create({ amount: 500, currency: 'eur' });
  const read = () => send({ method: 'GET', path: `${path}/${id}`, headers: key('k') });
  const before = await read();
  await stripe.paymentIntents.cancel(id);
  const after = await read();
  assert.deepEqual(
    [before.json.status, after.json.status],
    ['requires_payment_method', 'canceled'],
  );
  assert.equal(after.headers.get('idempotent-replayed'), null);
});
