import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { trustedProxies } from '../config.ts';
import { connectRaw, httpRequest, paymentRequest, startEdge } from '../test/http-edge.ts';
import { gatewaySettings, startGateway } from '../test/gateway-process.ts';
import { callerAddress, createRateLimiter, type Rate } from './admission.ts';

// So slow that no time which a test takes gives anything back.
const perSecond = 0.001;
const bad = (headers = {}) => paymentRequest({ Authorization: 'Bearer no', ...headers });

test('a partner that sends too much gets 429 and when to come again, and nothing is done', async (t) => {
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

test('an address that sends bad keys gets 429, and a good partner there is served', async (t) => {
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
    // What the proxy adds is last; what stands before it comes from the caller.
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

/** A limiter on the test's own clock. */
function aLimiter(rate: Rate) {
  const time = { nowMs: 0 };
  const limiter = createRateLimiter(rate, () => time.nowMs);
  const grantedOf = (tries: number, who = 'acme') =>
    Array.from({ length: tries }, () => limiter.take(who)).filter(
      ({ outcome }) => outcome === 'granted',
    ).length;
  return { time, limiter, grantedOf };
}

test('after a rest a burst is granted, and then so many a second', () => {
  const { time, grantedOf } = aLimiter({ perSecond: 10, burst: 20 });
  assert.equal(grantedOf(50), 20);
  time.nowMs = 1_000;
  assert.equal(grantedOf(50), 10);
  time.nowMs = 3_600_000;
  assert.equal(grantedOf(50), 20);
});

test('asking in small steps gives no more and no less than asking in large ones', () => {
  const { time, grantedOf } = aLimiter({ perSecond: 100, burst: 5 });
  let granted = 0;
  for (time.nowMs = 0; time.nowMs < 10_000; time.nowMs += 1) granted += grantedOf(1);
  assert.ok(granted >= 1_003 && granted <= 1_005, `${granted}`);
});

test('one who does too much takes nothing from another', () => {
  const { grantedOf } = aLimiter({ perSecond: 1, burst: 5 });
  assert.equal(grantedOf(1_000, 'globex'), 5);
  assert.equal(grantedOf(5, 'acme'), 5);
});

test('whoever is limited learns after how many whole seconds it pays to come again', () => {
  for (const [perSecond, seconds] of [
    [1_000, 1],
    [1, 1],
    [0.2, 5],
  ] as const) {
    const { time, limiter } = aLimiter({ perSecond, burst: 1 });
    limiter.take('acme');
    const limited = limiter.take('acme');
    assert.deepEqual(limited, { outcome: 'limited', retryAfterSeconds: seconds });
    time.nowMs += seconds * 1_000;
    assert.equal(limiter.take('acme').outcome, 'granted');
  }
});

test('ten thousand names are remembered, and the oldest goes for a new one', () => {
  const { limiter, grantedOf } = aLimiter({ perSecond: 1, burst: 1 });
  for (let name = 0; name < 10_000; name += 1) limiter.take(`${name}`);
  assert.equal(grantedOf(1, '0'), 0);
  limiter.take('one more');
  assert.deepEqual([grantedOf(1, '9999'), grantedOf(1, '0')], [0, 1]);
});

const from = (ip: string) =>
  callerAddress({ ip, socket: { remoteAddress: '192.0.2.1' } as Socket });

test('an IPv4 address is one caller, however it is written', () => {
  assert.equal(from('203.0.113.9'), '203.0.113.9');
  assert.equal(from('::ffff:203.0.113.9'), '203.0.113.9');
});

test('an IPv6 network of 64 bits is one caller', () => {
  const one = from('2001:db8:0:7::1');
  for (const same of ['2001:DB8:0:7:ffff::', '2001:db8::7:1:2:3:4', '2001:db8:0:7:0:0:0:9%eth0']) {
    assert.equal(from(same), one, same);
  }
  assert.notEqual(from('2001:db8:0:8::1'), one);
  assert.equal(from('::1'), '0:0:0:0');
});

test('what is no address is taken for the address of whoever says it', () => {
  for (const header of ['', 'unknown', '_hidden', 'x'.repeat(10_000), '1.2.3.4.5']) {
    assert.equal(from(header), '192.0.2.1');
  }
});

const floodMs = 3_000;
const connectionsInFlood = 16;

/** Sends one made-up key after the other, forty at a time, until the time is up. */
async function flood(port: number, end: number): Promise<number[]> {
  const connection = connectRaw(port);
  const statuses: number[] = [];
  while (performance.now() < end) {
    const requests = Array.from({ length: 40 }, () => {
      const key = randomBytes(18).toString('base64url');
      return `GET /v1/payments/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    });
    connection.send(requests.join(''));
    for (const _ of requests) statuses.push((await connection.answer()).status);
  }
  connection.destroy();
  return statuses;
}

test('a flood of made-up keys starves no good partner, not even one that is new to the gateway', async (t) => {
  const given = await gatewaySettings(t);
  const gateway = startGateway(t, given);
  await gateway.ready();
  const port = Number(given.settings.HTTP_PORT);
  const end = performance.now() + floodMs;
  const floods = Array.from({ length: connectionsInFlood }, () => flood(port, end));

  // The first of these is the first that the gateway hears of this key, and the answers of memory
  // run out in between: all of them have to come through beside the flood.
  const good: number[] = [];
  for (let payment = 0; payment < 5 || performance.now() < end; payment += 1) {
    const headers = { 'idempotency-key': `key-${payment}` };
    good.push((await gateway.post({ amount: 1, currency: 'EUR' }, headers)).status);
  }
  const bad = (await Promise.all(floods)).flat();
  t.diagnostic(`${bad.length} made-up keys, ${good.length} payments in ${floodMs} ms`);
  assert.deepEqual(new Set(good), new Set([202]));
  // On a busy machine a key is not looked up in time, which is a 503; none is let in.
  assert.deepEqual(
    bad.filter((status) => ![401, 429, 503].includes(status)),
    [],
  );
  assert.ok(bad.includes(429));
  assert.ok(bad.filter((status) => status === 401).length < 100 + 20 * 60);
  assert.equal(
    (await gateway.post({ amount: 1, currency: 'EUR' }, { 'idempotency-key': 'z' })).status,
    202,
  );
});
