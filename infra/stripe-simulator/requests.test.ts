import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { aSimulator, testKey, type RawAnswer } from './test/simulator.ts';

// https://docs.stripe.com/api/errors, /api/authentication, /api/expanding_objects, /error-codes

const path = '/v1/payment_intents';
const form = 'amount=500&currency=eur';

test('curl takes a payment with basic authentication, as in every example of the documentation', async (t) => {
  const { url } = await aSimulator(t);
  const { stdout } = await promisify(execFile)('curl', [
    ...['--silent', '--show-error', `${url}${path}`, '-u', `${testKey}:`],
    ...['-d', 'amount=500', '-d', 'currency=usd', '-d', 'payment_method=pm_card_visa'],
    ...[
      '-d',
      'payment_method_types[]=card',
      '-d',
      'confirm=true',
      '--data-urlencode',
      'metadata[order id]=a&b',
    ],
    ...['-d', 'expand[]=latest_charge', '-H', 'Idempotency-Key: curl-1'],
  ]);
  const { status, metadata, latest_charge } = JSON.parse(stdout);
  assert.deepEqual([status, metadata], ['succeeded', { 'order id': 'a&b' }]);
  assert.equal(latest_charge.object, 'charge');
});

test('without a test key there is no answer but 401, and the key is not repeated', async (t) => {
  const { send } = await aSimulator(t);
  const live = `Bearer sk_live_${'4'.repeat(20)}`;
  for (const authorization of ['', 'Bearer nonsense', live, 'Basic bm9uc2Vuc2U6', 'sk_test_x']) {
    const { status, text, headers } = await send({ path, form, headers: { authorization } });
    assert.equal(status, 401, authorization);
    assert.doesNotMatch(text, /nonsense|4444/);
    assert.match(headers.get('request-id') ?? '', /^req_/);
  }
});

test('what is wrong with a parameter is named by its name and code', async (t) => {
  const { send } = await aSimulator(t);
  const table = [
    ['currency=eur', 'parameter_missing', 'amount'],
    ['amount=500', 'parameter_missing', 'currency'],
    ['amount=&currency=eur', 'parameter_invalid_empty', 'amount'],
    ['amount=5.5&currency=eur', 'parameter_invalid_integer', 'amount'],
    ['amount=-5&currency=eur', 'parameter_invalid_integer', 'amount'],
    ['amount=49&currency=eur', 'amount_too_small', 'amount'],
    ['amount=49&currency=jpy', 'amount_too_small', 'amount'],
    ['amount=100000000&currency=eur', 'amount_too_large', 'amount'],
    ['amount=1001&currency=bhd', undefined, 'amount'],
    ['amount=1250&currency=isk', 'invalid_charge_amount_no_decimal_compatible', 'amount'],
    ['amount=1201&currency=ugx', 'invalid_charge_amount_no_decimal_compatible', 'amount'],
    ['amount=500&currency=iqd', undefined, 'currency'],
    ['amount=500&currency=EUR', undefined, 'currency'],
    ['amount=500&currency=zzz', undefined, 'currency'],
    [`${form}&colour=red`, 'parameter_unknown', 'colour'],
    [`${form}&capture_method=later`, undefined, 'capture_method'],
    [`${form}&payment_method=pm_unknown`, 'resource_missing', 'payment_method'],
    [`${form}&metadata[k]=${'v'.repeat(501)}`, undefined, 'metadata[k]'],
    [`${form}&metadata=text`, undefined, 'metadata'],
    [`${form}&expand[]=customer`, undefined, 'expand'],
    [`${form}&payment_method_types[]=carrier_pigeon`, undefined, 'payment_method_types'],
    [`${form}&confirm=yes`, undefined, 'confirm'],
    [`${form}&return_url=nowhere`, 'url_invalid', 'return_url'],
  ] as const;
  for (const [wrong, code, param] of table) {
    const { status, json } = await send({ path, form: wrong });
    assert.equal(status, 400, wrong);
    const { error } = json;
    assert.deepEqual(
      [error.type, error.code, error.param],
      ['invalid_request_error', code, param],
      wrong,
    );
  }
});

test('the names of objects are no names here', async (t) => {
  const { send } = await aSimulator(t);
  const proto = await send({ path, form: `${form}&metadata[__proto__][amount]=1` });
  assert.equal(proto.status, 400);
  for (const name of ['constructor', 'toString', 'hasOwnProperty']) {
    const unknown = await send({ path, form: `${form}&${name}=1` });
    assert.deepEqual([unknown.status, unknown.json.error.code], [400, 'parameter_unknown'], name);
    const kept = await send({ path, form: `${form}&metadata[${name}]=1` });
    assert.equal(kept.status, 200, name);
    assert.match(kept.text, new RegExp(`"metadata":\\{"${name}":"1"\\}`));
  }
});

test('what is not there is 404 by its URL and 400 by a parameter', async (t) => {
  const { send } = await aSimulator(t);
  for (const unknown of ['payment_intents/pi_1', 'charges/ch_1', 'refunds/re_1', 'events/evt_1']) {
    const { status, json } = await send({ method: 'GET', path: `/v1/${unknown}` });
    assert.deepEqual([status, json.error.code], [404, 'resource_missing'], unknown);
  }
  const confirm = await send({ path: `${path}/pi_1/confirm` });
  assert.deepEqual([confirm.status, confirm.json.error.code], [404, 'resource_missing']);
  const after = await send({ method: 'GET', path: `${path}?starting_after=pi_1` });
  assert.deepEqual([after.status, after.json.error.param], [400, 'starting_after']);
});

test('what is not simulated is an unknown URL, not a silent success', async (t) => {
  const { send } = await aSimulator(t);
  for (const unknown of ['/v1/customers', `${path}/pi_1/increment_authorization`, '/v1/charges']) {
    const { status, json } = await send({ path: unknown, form });
    assert.deepEqual([status, json.error.type], [404, 'invalid_request_error'], unknown);
  }
});

test('bodies that are no forms, and other versions of the API, are refused aloud', async (t) => {
  const { send } = await aSimulator(t);
  const json = { 'content-type': 'application/json' };
  assert.equal((await send({ path, form: '{"amount":500}', headers: json })).status, 400);
  const version = { 'stripe-version': '2020-08-27' };
  assert.equal((await send({ path, form, headers: version })).status, 400);
});

test('a request of too many parameters is refused, not cut off', async (t) => {
  const { send } = await aSimulator(t);
  const many = Array.from({ length: 1_001 }, (_, index) => `metadata[k${index}]=1`).join('&');
  assert.equal((await send({ path, form: `${form}&${many}` })).status, 400);
  const deep = `metadata${'[a]'.repeat(20)}=1`;
  assert.equal((await send({ path, form: `${form}&${deep}` })).status, 400);
});

test('what the server itself refuses has the form of an error of the API too', async (t) => {
  const { send } = await aSimulator(t);
  const { status, json, headers } = await send({
    path,
    form: `description=${'x'.repeat(2 ** 21)}`,
  });
  assert.deepEqual([status, json.error.type], [413, 'invalid_request_error']);
  assert.match(headers.get('request-id') ?? '', /^req_/);
});

// Idempotency: https://docs.stripe.com/api/idempotent_requests ("requests" below) and
// https://docs.stripe.com/error-low-level ("errors" below).

const keyed = `${form}&payment_method_types[]=card`;
const key = (value: string) => ({ 'idempotency-key': value });
const dayMs = 24 * 60 * 60 * 1_000;

test('requests: a retry gets the same status and the same bytes, and says that it is a replay', async (t) => {
  const { send, stripe } = await aSimulator(t);
  const first = await send({ path, form: keyed, headers: key('k') });
  assert.equal(first.headers.get('idempotent-replayed'), null);
  const again = await send({ path, form: keyed, headers: key('k') });
  assert.deepEqual([again.status, again.text], [first.status, first.text]);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.headers.get('original-request'), first.headers.get('request-id'));
  assert.notEqual(again.headers.get('request-id'), first.headers.get('request-id'));
  assert.equal((await stripe.paymentIntents.list()).data.length, 1);
});

test('requests: the replay shows what was, not what is', async (t) => {
  const { send, stripe } = await aSimulator(t);
  const first = await send({ path, form: keyed, headers: key('k') });
  await stripe.paymentIntents.confirm(first.json.id, { payment_method: 'pm_card_visa' });
  const again = await send({ path, form: keyed, headers: key('k') });
  assert.equal(again.text, first.text);
});

test('requests: other parameters under the same key are refused, in whatever order they came', async (t) => {
  const { send } = await aSimulator(t);
  await send({ path, form: keyed, headers: key('k') });
  const reordered = 'currency=eur&payment_method_types[0]=card&amount=500';
  const same = await send({ path, form: reordered, headers: key('k') });
  assert.equal(same.headers.get('idempotent-replayed'), 'true');
  const other = await send({ path, form: `${keyed}&description=x`, headers: key('k') });
  assert.deepEqual([other.status, other.json.error.type], [400, 'idempotency_error']);
  // Not even as invalid parameters: the idempotency layer comes before validation.
  const invalid = await send({ path, form: 'amount=x', headers: key('k') });
  assert.equal(invalid.json.error.type, 'idempotency_error');
});

test('requests: a key belongs to one endpoint', async (t) => {
  const { send } = await aSimulator(t);
  const { json } = await send({ path, form: keyed, headers: key('k') });
  const other = await send({ path: `${path}/${json.id}/cancel`, headers: key('k') });
  assert.deepEqual([other.status, other.json.error.type], [400, 'idempotency_error']);
  assert.match(other.json.error.message, /same endpoint/);
});

test('requests: what fails validation is not kept, so the key is free for the right request', async (t) => {
  const { send } = await aSimulator(t);
  for (const wrong of ['currency=eur', 'amount=0&currency=eur', `${keyed}&colour=red`]) {
    const refused = await send({ path, form: wrong, headers: key('k') });
    assert.equal(refused.status, 400, wrong);
  }
  const right = await send({ path, form: keyed, headers: key('k') });
  assert.equal(right.status, 200);
  assert.equal(right.headers.get('idempotent-replayed'), null);
});

test('errors: "regardless of what they were": a decline is kept, and so is a state that was wrong', async (t) => {
  const { send } = await aSimulator(t);
  const declining = `${keyed}&confirm=true&payment_method=pm_card_chargeDeclined`;
  const declined = await send({ path, form: declining, headers: key('d') });
  assert.equal(declined.status, 402);
  const again = await send({ path, form: declining, headers: key('d') });
  assert.deepEqual([again.status, again.text], [402, declined.text]);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');

  const paid = await send({ path, form: `${keyed}&confirm=true&payment_method=pm_card_visa` });
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
    const first = await send({ path, form: keyed, headers: key(fault) });
    const again = await send({ path, form: keyed, headers: key(fault) });
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
    const refused = await send({ path, form: keyed, headers: key(fault) });
    assert.ok(refused.status === 429 || refused.status === 503);
    const through = await send({ path, form: keyed, headers: key(fault) });
    assert.deepEqual([through.status, through.headers.get('idempotent-replayed')], [200, null]);
  }
});

test('errors: a 401 is not kept', async (t) => {
  const { send } = await aSimulator(t);
  const headers = { ...key('k'), authorization: 'Bearer nonsense' };
  assert.equal((await send({ path, form: keyed, headers })).status, 401);
  assert.equal((await send({ path, form: keyed, headers: key('k') })).status, 200);
});

test('requests: of many at once under one key, one is executed and the others get 409', async (t) => {
  const { send, stripe, control } = await aSimulator(t);
  const hold = await control<{ id: string }>('POST', '/faults', { fault: 'hold', count: 1 });
  const hurried: RawAnswer[] = [];
  const all = Array.from({ length: 10 }, async () => {
    const answer = await send({ path, form: keyed, headers: key('k') });
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
  assert.equal((await send({ path, form: keyed, headers: key('k') })).text, executed.text);
});

test('requests: keys are forgotten after 24 hours and not before', async (t) => {
  const { send, control } = await aSimulator(t);
  const first = await send({ path, form: keyed, headers: key('k') });
  await control('POST', '/clock', { advanceMs: dayMs - 60_000 });
  assert.equal((await send({ path, form: keyed, headers: key('k') })).text, first.text);
  await control('POST', '/clock', { advanceMs: 60_000 });
  const new_ = await send({ path, form: keyed, headers: key('k') });
  assert.equal(new_.headers.get('idempotent-replayed'), null);
  assert.notEqual(new_.json.id, first.json.id);
});

test('requests: keys have up to 255 characters', async (t) => {
  const { send } = await aSimulator(t);
  assert.equal((await send({ path, form: keyed, headers: key('k'.repeat(255)) })).status, 200);
  assert.equal((await send({ path, form: keyed, headers: key('k'.repeat(256)) })).status, 400);
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
