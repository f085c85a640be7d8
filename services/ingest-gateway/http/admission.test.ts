import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createRateLimiter, type Rate } from '@triplock/runtime';
import { trustedProxies } from '../config.ts';
import { connectRaw, httpRequest, paymentRequest, startEdge } from '../test/http-edge.ts';
import { gatewaySettings, startGateway } from '../test/gateway-process.ts';
import { openBacklog } from './admission.ts';

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

test('who asks too often for what needs no key gets 429, and a partner there is served', async (t) => {
  const edge = await startEdge(t, { publicRate: { perSecond, burst: 3 } });
  const statuses = [];
  for (const path of ['/openapi.json', '/docs', '/docs/json', '/openapi.json', '/docs']) {
    const answer = await edge.exchange(httpRequest(`GET ${path}`, { Authorization: undefined }));
    statuses.push(answer.status);
    if (answer.status === 429) assert.match(answer.headers['retry-after']!, /^[1-9]\d*$/);
  }
  assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
  assert.equal((await edge.exchange(httpRequest('GET /nowhere'))).status, 404);
});

test('a balancer is answered however often its address asks, and then each answer is the last', async (t) => {
  const edge = await startEdge(t, { publicRate: { perSecond, burst: 3 } });
  const connection = edge.connect();
  const ask = () => (connection.send(httpRequest('GET /healthz')), connection.answer());
  for (let asked = 0; asked < 3; asked += 1) {
    assert.notEqual((await ask()).headers['connection'], 'close');
  }
  const { status, headers } = await ask();
  assert.deepEqual([status, headers['connection']], [200, 'close']);
  assert.equal(await connection.ended, '');
  assert.equal((await edge.exchange(httpRequest('GET /healthz'))).status, 200);
});

test('an address that asks for what is not here gets 429, and a good partner there is served', async (t) => {
  const edge = await startEdge(t, { failureRate: { perSecond, burst: 3 } });
  const statuses = [];
  for (const line of ['GET /no', 'PUT /docs', 'QUERY /v1/payments', 'GET /no', 'QUERY /no']) {
    statuses.push((await edge.exchange(httpRequest(line))).status);
  }
  assert.deepEqual(statuses, [404, 405, 405, 429, 429]);
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
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
  for (const largest of ['fc00::/7', '2001::/16', '::ffff:10.0.0.0/104']) {
    assert.deepEqual(trustedProxies.parse(largest), [largest]);
  }
  for (const malformed of [
    'proxy',
    '10.0.0.0/33',
    '0.0.0.0/0',
    '0.0.0.0/1,128.0.0.0/1',
    '::/1,8000::/1',
    '::ffff:0:0/96',
    'fe80::/10',
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

test('what costs more takes as many tokens, and one that costs more than a burst waits for a full one', () => {
  const { time, limiter } = aLimiter({ perSecond: 10, burst: 20 });
  const take = (tokens: number) => limiter.take('acme', tokens);
  assert.deepEqual([take(15).outcome, take(5).outcome], ['granted', 'granted']);
  assert.deepEqual(take(15), { outcome: 'limited', retryAfterSeconds: 2 });
  time.nowMs = 1_500;
  assert.equal(take(15).outcome, 'granted');
  assert.deepEqual(take(100), { outcome: 'limited', retryAfterSeconds: 2 });
  time.nowMs = 3_500;
  assert.equal(take(100).outcome, 'granted');
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
  for (const perSecond of [1_000, 1, 0.2]) {
    const seconds = Math.max(1, 1 / perSecond);
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

/** A backlog on the test's own clock. */
function aBacklog() {
  const time = { nowMs: 0 };
  const backlog = openBacklog(() => time.nowMs);
  /** For so long, requests of one partner come at a rate, and a store does as many as it can. */
  const load = (
    ms: number,
    { come, done }: Record<'come' | 'done', number>,
    leaving: (() => void)[] = [],
  ) => {
    let [shed, most] = [0, 0];
    let [due, can] = [0, 0];
    for (const end = time.nowMs + ms; time.nowMs < end; time.nowMs += 1) {
      for (due += come; due >= 1; due -= 1) {
        if (backlog.isBehind('acme')) shed += 1;
        else leaving.push(backlog.enter('acme'));
      }
      most = Math.max(most, leaving.length);
      for (can = Math.min(can + done, leaving.length); can >= 1; can -= 1) leaving.shift()!();
    }
    return { shed, most, left: leaving };
  };
  return { time, backlog, load };
}

test('nobody is shed at a rate that a store gets through, nor by a burst that it soon has done', () => {
  const { load } = aBacklog();
  assert.equal(load(10_000, { come: 4, done: 5 }).shed, 0);
  assert.equal(load(1, { come: 400, done: 5 }).shed, 0);
});

test('a burst that takes more than a second is served whole, and so are those right after it', () => {
  const { backlog, load } = aBacklog();
  const done = 0.7;
  const first = load(400, { come: 2.5, done });
  const draining = load(400, { come: 0, done }, first.left);
  const bursts = [30, 150].map((size) => load(1, { come: size, done }, draining.left));
  const rest = load(1_300, { come: 0, done }, draining.left);
  const late = load(1, { come: 400, done }, rest.left);
  const shed = [first, draining, ...bursts, late].map((each) => each.shed);
  assert.deepEqual({ shed, limit: backlog.limit() }, { shed: [0, 0, 0, 0, 0], limit: Infinity });
});

test('many who ask again as soon as they are answered are no burst, and are limited', () => {
  const { time, backlog } = aBacklog();
  const queue = Array.from({ length: 400 }, () => backlog.enter('acme'));
  let shed = 0;
  for (let n = 0; n < 2_000; n += 1, time.nowMs += 1) {
    queue.shift()?.();
    if (backlog.isBehind('acme')) shed += 1;
    else queue.push(backlog.enter('acme'));
  }
  assert.ok(shed > 300 && queue.length < 100, `${shed} were shed, ${queue.length} wait`);
});

test('beyond it no more wait than are done in time, at the rate that the store has now', () => {
  const { backlog, load } = aBacklog();
  load(3_000, { come: 10, done: 5 }).left.forEach((leave) => leave());
  const beyond = load(5_000, { come: 10, done: 5 });
  // It has 50 ms, ten at a time; half of what comes is too much.
  assert.ok(beyond.most <= 2 * 5 * 50, `${beyond.most} waited`);
  assert.ok(beyond.shed > 5_000 * 4.5 && beyond.shed < 5_000 * 5.5, `${beyond.shed} were shed`);
  beyond.left.forEach((leave) => leave());
  const slower = load(5_000, { come: 10, done: 2 });
  assert.ok(backlog.limit() <= 2 * 2 * 50, `${backlog.limit()} may wait`);
  slower.left.forEach((leave) => leave());
  assert.equal(load(5_000, { come: 1, done: 5 }).shed, 0);
  assert.ok(backlog.limit() > 2_000, `${backlog.limit()} may wait after it`);
});

test('a store that is always slow is given four times what it takes', () => {
  const { time, backlog } = aBacklog();
  const take = (ms: number, requests: number) => {
    const leaving = Array.from({ length: requests }, () => backlog.enter('acme'));
    time.nowMs += ms;
    for (const leave of leaving) leave();
  };
  for (let request = 0; request < 200; request += 1) take(100, 1);
  for (let turn = 0; turn < 20; turn += 1) take(350, 300);
  assert.equal(backlog.limit(), Infinity);
  for (let turn = 0; turn < 4; turn += 1) take(450, 300);
  assert.ok(backlog.limit() < 300, `${backlog.limit()} may wait`);
});

test('a store that takes long from the start is not shed for it, nor after a rest', () => {
  const { time, backlog } = aBacklog();
  const entered: (() => void)[][] = [];
  const shedWithin = (ms: number) => {
    let shed = 0;
    for (const end = time.nowMs + ms; time.nowMs < end; time.nowMs += 1) {
      if (entered.length === 60) for (const leave of entered.shift()!) leave();
      const isBehind = backlog.isBehind('acme');
      shed += isBehind ? 1 : 0;
      entered.push(isBehind ? [] : [backlog.enter('acme'), backlog.enter('acme')]);
    }
    return shed;
  };
  shedWithin(3_000);
  assert.equal(shedWithin(5_000), 0);
  for (const leave of entered.splice(0).flat()) leave();
  time.nowMs += 10_000;
  assert.equal(shedWithin(1_000), 0);
});

test('whoever has fewer waiting than others is let in, as long as there is a share for each', () => {
  const { time, backlog } = aBacklog();
  for (let turn = 0; turn < 2; turn += 1) {
    const leaving = Array.from({ length: 100 }, () => backlog.enter('flooding'));
    time.nowMs += 900;
    for (const leave of leaving) leave();
  }
  assert.equal(backlog.limit(), 64);
  for (let request = 0; request < 64; request += 1) {
    assert.equal(backlog.isBehind('flooding'), false);
    backlog.enter('flooding');
  }
  assert.equal(backlog.isBehind('flooding'), true);
  for (let other = 0; other < 63; other += 1) {
    assert.equal(backlog.isBehind(`other ${other}`), false);
    backlog.enter(`other ${other}`);
  }
  assert.equal(backlog.isBehind('one more'), true);
});

test('behind one that has waited for a second, partners with their share are shed until it is done', () => {
  const { time, backlog } = aBacklog();
  const leave = backlog.enter('acme');
  time.nowMs = 1_000;
  assert.equal(backlog.isBehind('acme'), false);
  time.nowMs = 1_001;
  assert.deepEqual([backlog.isBehind('acme'), backlog.isBehind('globex')], [true, false]);
  leave();
  leave();
  assert.equal(backlog.isBehind('acme'), false);
});

const floodMs = 3_000;
const connectionsInFlood = 16;

/**
 * Sends one made-up key after the other, forty at a time, until the time is up: on another
 * connection each time the gateway ends one, as it does after so many refusals.
 */
async function flood(port: number, end: number): Promise<number[]> {
  const statuses: number[] = [];
  let connection = connectRaw(port);
  while (performance.now() < end) {
    const requests = Array.from({ length: 40 }, () => {
      const key = randomBytes(18).toString('base64url');
      return `GET /v1/payments/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    });
    connection.send(requests.join(''));
    for (const _ of requests) {
      const answer = await connection.answer().catch(() => undefined);
      if (answer === undefined) {
        connection = connectRaw(port);
        break;
      }
      statuses.push(answer.status);
    }
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
