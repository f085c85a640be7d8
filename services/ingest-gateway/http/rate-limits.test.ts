import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpRequest, paymentRequest, startEdge } from '../test/http-edge.ts';
import { trustedProxies } from '../trusted-proxies.ts';

// So slow that no time which a test takes gives anything back.
const perSecond = 0.001;
const bad = (headers = {}) => paymentRequest({ Authorization: 'Bearer no', ...headers });

test('a partner that sends too much is told 429 and when to come again, and nothing is done', async (t) => {
  const edge = await startEdge(t, { partnerRate: { perSecond, burst: 2 } });
  for (let request = 0; request < 2; request += 1) {
    assert.equal((await edge.exchange(paymentRequest())).status, 202);
  }
  for (const request of [
    paymentRequest(),
    httpRequest('GET /v1/payments/x'),
    paymentRequest({}, '{'),
  ]) {
    const answer = await edge.exchange(request);
    assert.equal(answer.status, 429, answer.body);
    assert.match(answer.body, /"code":"rate_limited"/);
    assert.match(answer.headers['retry-after']!, /^[1-9]\d*$/);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
  }
  assert.equal(edge.handled.length, 2);
});

test('what needs no key is not counted, whoever sends how much', async (t) => {
  const rate = { perSecond, burst: 1 };
  const edge = await startEdge(t, { partnerRate: rate, failureRate: rate });
  await edge.exchange(bad());
  for (let request = 0; request < 20; request += 1) {
    assert.equal((await edge.exchange(httpRequest('GET /healthz'))).status, 200);
    assert.equal((await edge.exchange(httpRequest('GET /nowhere'))).status, 404);
  }
});

test('an address that sends bad keys is told 429, and a good partner there is served', async (t) => {
  const edge = await startEdge(t, { failureRate: { perSecond, burst: 3 } });
  const statuses = [];
  for (const headers of [{}, { Authorization: undefined }, { Authorization: 'Basic x' }, {}, {}]) {
    statuses.push((await edge.exchange(bad(headers))).status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
});

test('what a caller says of its address counts only when a trusted proxy says it', async (t) => {
  const failureRate = { perSecond, burst: 1 };
  const says = (address: string) => bad({ 'X-Forwarded-For': address });
  const open = await startEdge(t, { failureRate });
  const proxied = await startEdge(t, { failureRate, trustedProxies: ['127.0.0.0/8'] });
  const cases = [
    // A caller may say anything; who is no proxy is not asked.
    [open, '198.51.100.1', 401],
    [open, '198.51.100.2', 429],
    [proxied, '198.51.100.1', 401],
    [proxied, '198.51.100.2', 401],
    [proxied, '198.51.100.2', 429],
    // What the proxy adds is last; what stands before it is the caller's own word.
    [proxied, '203.0.113.7, 198.51.100.2', 429],
    [proxied, 'garbage', 401],
    [proxied, 'x'.repeat(5_000), 429],
  ] as const;
  for (const [edge, address, status] of cases) {
    assert.equal((await edge.exchange(says(address))).status, status, address.slice(0, 40));
  }
});

test('trusted proxies are addresses and networks, and never everybody', () => {
  const good = '10.0.0.0/8, 192.0.2.1,2001:db8::/32';
  assert.deepEqual(trustedProxies.parse(good), ['10.0.0.0/8', '192.0.2.1', '2001:db8::/32']);
  for (const malformed of [
    'proxy',
    '10.0.0.0/33',
    '0.0.0.0/0',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    ',',
    '1.2.3',
  ]) {
    assert.equal(trustedProxies.parse(malformed), undefined, malformed);
  }
});
