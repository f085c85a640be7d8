import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { connect, createServer, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { serveAdmin, type AdminOptions } from './admin-server.ts';
import { createCrashPoints, noCrashPoints } from './crash-points.ts';
import { quickLimits } from './http-connections.ts';
import { withDeadline } from './loop.ts';
import { Counter, createMetrics } from './metrics.ts';

const host = '127.0.0.1';
const token = 'token-of-the-home';
const allowed = { authorization: `Bearer ${token}` };

async function startAdmin(t: TestContext, shown: Partial<AdminOptions> & { port?: number } = {}) {
  const port = shown.port ?? (await freePort());
  const admin = await serveAdmin({
    host,
    port,
    metrics: createMetrics('test'),
    readiness: {},
    crashPoints: noCrashPoints,
    controlToken: token,
    ...shown,
  });
  t.after(() => admin.close());
  return async (path: string, method = 'GET', headers: Record<string, string> = allowed) => {
    // Not fetch, which gives no other Host than the URL's.
    const asked = request({ host, port, path, method, headers });
    const [response] = (await once(asked.end(), 'response')) as [IncomingMessage];
    return { status: response.statusCode, text: await text(response) };
  };
}

test('a process that answers is healthy, whatever its dependencies do', async (t) => {
  const ask = await startAdmin(t, {
    readiness: { redis: () => Promise.reject(new Error('away')) },
  });
  assert.deepEqual(await ask('/healthz'), { status: 200, text: '{"status":"ok"}' });
});

test('half-sent requests and a second host keep no operator out', async (t) => {
  const port = await freePort();
  const ask = await startAdmin(t, { port });
  const open = (text: string) => {
    const socket = connect(port, host).on('error', () => undefined);
    t.after(() => socket.destroy());
    socket.write(text);
    return socket;
  };
  const { connectionsMax } = quickLimits;
  const halfSent = Array.from({ length: connectionsMax }, () => open('GET /hea').resume());
  const ended = halfSent.map((socket) => once(socket, 'close'));
  await Promise.all(halfSent.map((socket) => once(socket, 'connect')));
  assert.equal((await ask('/healthz')).status, 200);
  assert.ok(halfSent.filter(({ closed }) => !closed).length > 240);
  // Node by itself would look for them after 30 s, and give a head a minute.
  await withDeadline(Promise.all(ended), { ms: 20_000, what: 'the limit of a head' });
  const twice = open('GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n');
  const [answer] = (await once(twice, 'data')) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1\.1 400 /);
});

test('a service is ready when every dependency was asked and answered', async (t) => {
  let asked = 0;
  const ask = await startAdmin(t, { readiness: { redis: async () => void (asked += 1) } });
  const { status, text } = await ask('/readyz');
  assert.deepEqual([status, JSON.parse(text)], [200, { ready: true, checks: { redis: 'ok' } }]);
  await ask('/readyz');
  assert.equal(asked, 2);
});

test('a service is not ready when one dependency fails or hangs, and says which', async (t) => {
  const ask = await startAdmin(t, {
    readiness: {
      postgres: async () => undefined,
      redis: () => Promise.reject(new Error('connection refused')),
      kafka: () => new Promise<void>(() => undefined),
    },
  });
  const { status, text } = await ask('/readyz');
  assert.equal(status, 503);
  assert.deepEqual(JSON.parse(text), {
    ready: false,
    checks: {
      postgres: 'ok',
      redis: 'connection refused',
      kafka: 'kafka did not answer within 2000 ms',
    },
  });
});

test('a service that goes on without a dependency is ready, and says what does not work', async (t) => {
  const readiness = {
    redis: async () => undefined,
    postgres: async () => ({ degraded: 'away: new keys are not known' }),
  };
  const { status, text } = await (await startAdmin(t, { readiness }))('/readyz');
  assert.equal(status, 200);
  assert.deepEqual(JSON.parse(text), {
    ready: true,
    degraded: true,
    checks: { redis: 'ok', postgres: 'away: new keys are not known' },
  });
});

test('metrics carry the service they are from', async (t) => {
  const metrics = createMetrics('ledger-worker');
  new Counter({ name: 'payments_total', help: 'Payments.', registers: [metrics] }).inc(3);
  const { text } = await (await startAdmin(t, { metrics }))('/metrics');
  assert.match(text, /^payments_total\{service="ledger-worker"\} 3$/m);
  assert.match(text, /^process_cpu_seconds_total\{/m);
});

test('metrics that are asked for by name are told alone, and nothing else is put together', async (t) => {
  const metrics = createMetrics('ledger-worker');
  const registers = [metrics];
  new Counter({ name: 'payments_total', help: 'Payments.', registers }).inc(3);
  const collect = () => assert.fail('nobody asked for it');
  new Counter({ name: 'others_total', help: 'Others.', registers, collect });
  const ask = await startAdmin(t, { metrics });
  const named = async (...names: string[]) => {
    const query = new URLSearchParams(names.map((name) => ['name[]', name] as [string, string]));
    const { status, text } = await ask(`/metrics?${query.toString()}`);
    assert.equal(status, 200);
    return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  };
  assert.deepEqual(await named('payments_total', 'constructor', '__proto__', ''), [
    'payments_total{service="ledger-worker"} 3',
  ]);
  assert.deepEqual(await named('nothing'), []);
  const cpu = async () => Number((await named('process_cpu_seconds_total'))[0]!.split(' ')[1]);
  const before = await cpu();
  const until = performance.now() + 50;
  while (performance.now() < until);
  assert.ok((await cpu()) > before, 'the CPU of now, though nothing else was asked for');
});

test('metrics that many ask for, at once or one after the other, are seldom put together, and are never older than the question', async (t) => {
  const metrics = createMetrics('ledger-worker');
  const registers = [metrics];
  let puts = 0;
  const payments = new Counter({ name: 'payments_total', help: 'Payments.', registers });
  new Counter({ name: 'puts_total', help: 'Puts.', registers, collect: () => void (puts += 1) });
  const ask = await startAdmin(t, { metrics });
  const sinceMs = performance.now();
  for (let asked = 1; asked <= 10; asked += 1) {
    payments.inc();
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask('/metrics')));
    for (const { status, text } of answers) {
      assert.equal(status, 200);
      assert.match(text, new RegExp(`^payments_total\\{.*\\} ${asked}$`, 'm'));
    }
  }
  // One at once, and then one in 50 ms, which a timer may think a little shorter.
  assert.ok(puts <= 1 + (performance.now() - sinceMs) / 45, `${puts} times`);
});

test('a crash point is armed, counted and disarmed from outside', async (t) => {
  const crashPoints = createCrashPoints();
  const ask = await startAdmin(t, { crashPoints });
  const point = '/crash-points?name=worker.polled';
  assert.equal((await ask(`${point}&action=throw&times=2`, 'POST')).status, 200);
  await assert.rejects(crashPoints.reached('worker.polled'));
  assert.deepEqual(JSON.parse((await ask('/crash-points')).text), { hits: { 'worker.polled': 1 } });
  assert.equal((await ask(`${point}&action=off`, 'POST')).status, 200);
  await crashPoints.reached('worker.polled');
});

test('an order for a crash point that makes no sense is refused', async (t) => {
  const crashPoints = createCrashPoints([], ['worker.polled']);
  const ask = await startAdmin(t, { crashPoints });
  const orders = [
    'name=worker.polled',
    'name=worker.exploded&action=kill',
    'name=worker.polled&action=melt',
    'name=worker.polled&action=pause&pauseMs=soon',
    'name=worker.polled&action=throw&times=often',
    'name=worker.polled&action=throw&times=0',
  ];
  for (const order of orders) {
    assert.equal((await ask(`/crash-points?${order}`, 'POST')).status, 400, order);
  }
  await crashPoints.reached('worker.polled');
});

test('no page elsewhere and nobody without the token of the home arms a crash point', async (t) => {
  const crashPoints = createCrashPoints();
  const ask = await startAdmin(t, { crashPoints });
  const order = '/crash-points?name=worker.polled&action=throw';
  const strangers: Record<string, string>[] = [
    {},
    { authorization: 'Bearer another' },
    { authorization: `Basic ${token}` },
    { ...allowed, origin: 'http://evil.example' },
    { ...allowed, origin: 'null' },
    { ...allowed, host: 'evil.example' },
    { ...allowed, host: '127.0.0.1.evil.example:80' },
    { ...allowed, host: '192.0.2.1' },
    { ...allowed, host: 'a b' },
  ];
  for (const headers of strangers) {
    const { status } = await ask(order, 'POST', headers);
    assert.equal(status, 403, JSON.stringify(headers));
    assert.equal((await ask('/crash-points', 'GET', headers)).status, 403);
  }
  await crashPoints.reached('worker.polled');
  // By a container's name, and by this machine's, whoever has the token may.
  for (const own of ['ledger-worker:9100', 'localhost', '[::1]:9100']) {
    assert.equal((await ask(order, 'POST', { ...allowed, host: own })).status, 200, own);
  }

  const closed = await startAdmin(t, { crashPoints, controlToken: undefined });
  assert.equal((await closed(order, 'POST')).status, 403, 'without a token nobody may');
});

test('however many ask whether it is ready, each dependency is asked one time after the other', async (t) => {
  let [asking, most, times] = [0, 0, 0];
  const redis = async () => {
    times += 1;
    most = Math.max(most, (asking += 1));
    for (let turn = 0; turn < 50; turn += 1) await new Promise((next) => setImmediate(next));
    asking -= 1;
  };
  const ask = await startAdmin(t, { readiness: { redis } });
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask('/readyz')));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(most, 1);
  assert.ok(times < 100, `${times}`);
});

test('what a page has a browser send is refused, whatever it asks for', async (t) => {
  const ask = await startAdmin(t, {
    routes: { 'POST /audit': () => Promise.reject(new Error('it was begun')) },
  });
  const pages: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    // As for an image, and as a form of this very port would.
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-origin' },
    // By a name that was made to point here.
    { host: 'evil.example' },
  ];
  for (const headers of pages) {
    for (const [path, method] of [
      ['/audit', 'POST'],
      ['/metrics', 'GET'],
      ['/readyz', 'GET'],
    ] as const) {
      assert.equal((await ask(path, method, headers)).status, 403, JSON.stringify(headers));
    }
  }
  // A person has typed the address.
  assert.equal((await ask('/readyz', 'GET', { 'sec-fetch-site': 'none' })).status, 200);
});

test('a name that was made to point here is refused on a network of a demo’s own too, and no other name there', async (t) => {
  const host = '0.0.0.0';
  const statusOf = async (ask: Awaited<ReturnType<typeof startAdmin>>, name: string) =>
    (await ask('/metrics', 'GET', { host: name })).status;
  const demo = await startAdmin(t, { host, crashPoints: createCrashPoints() });
  assert.equal(await statusOf(demo, 'rebound.example:9100'), 403);
  for (const own of ['ledger-worker:9100', '127.0.0.1:18110', 'localhost']) {
    assert.equal(await statusOf(demo, own), 200, own);
  }
  // In production it is called by whatever names the network around it has.
  const production = await startAdmin(t, { host });
  assert.equal(await statusOf(production, 'worker.internal.example:9100'), 200);
});

test('in production there are no crash points to see or to arm', async (t) => {
  const ask = await startAdmin(t);
  assert.equal((await ask('/crash-points')).status, 404);
  assert.equal((await ask('/crash-points?name=worker.polled&action=kill', 'POST')).status, 404);
});

test("a service's own routes are served beside, and their errors are a 500", async (t) => {
  const ask = await startAdmin(t, {
    routes: {
      'POST /audit': async (query) => ({ status: 200, body: { wait: query.get('wait') } }),
      'GET /bug': () => Promise.reject(new Error('no such table')),
    },
  });
  assert.deepEqual(await ask('/audit?wait=60', 'POST'), { status: 200, text: '{"wait":"60"}' });
  assert.equal((await ask('/bug')).status, 500);
  assert.equal((await ask('/audit')).status, 404);
  assert.equal((await ask('/nowhere')).status, 404);
});

test('a taken port is an error that names the port and the setting', async (t) => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, host, resolve));
  t.after(() => void other.close());
  const { port } = other.address() as AddressInfo;
  const options = { host, port, metrics: createMetrics('test'), readiness: {} };
  await assert.rejects(serveAdmin({ ...options, crashPoints: noCrashPoints }), {
    message: `port ${port} on ${host} is taken: free it or set ADMIN_PORT to another`,
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
