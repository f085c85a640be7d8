import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { aSimulator, testKey } from './test/simulator.ts';

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
    ['amount=500&currency=EUR', undefined, 'currency'],
    ['amount=500&currency=zzz', undefined, 'currency'],
    [`${form}&colour=red`, 'parameter_unknown', 'colour'],
    [`${form}&capture_method=manual`, undefined, 'capture_method'],
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
  for (const unknown of ['/v1/customers', `${path}/pi_1/capture`, '/v1/charges']) {
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
