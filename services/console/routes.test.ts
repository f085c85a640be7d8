import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { mayAct, type Route } from './console.ts';
import { routes } from './routes.ts';
import { eventually } from '@triplock/testing';
import {
  aConsole,
  aSharedConsole,
  assertDescribed,
  type AConsole,
  type Answered,
} from './test/a-console.ts';
import { roles, type Role } from '@triplock/inspect';

const anEmptyConsole = aSharedConsole({ before, after });

test('every route is refused to nobody and to every role below its own, and open to those from it on', async () => {
  const console = await anEmptyConsole();
  const sessions = new Map<Role, { cookie: string; csrf: string }>();
  for (const role of roles) {
    sessions.set(role, await console.logIn(await console.anOperator(`the-${role}`, role)));
  }
  for (const route of routes.filter(({ path }) => path !== '/logout')) {
    const where = `${route.method} ${route.path}`;
    if (route.role !== 'anyone') {
      const answered = await take(console, route);
      assert.equal(answered.status, 401, `${where} as nobody: ${answered.text}`);
      if (route.path.startsWith('/api/')) assertDescribed(route, answered);
    }
    for (const role of roles) {
      const answered = await take(console, route, sessions.get(role));
      const { status, text } = answered;
      if (route.path.startsWith('/api/')) assertDescribed(route, answered);
      const may = route.role === 'anyone' || mayAct(role, route.role);
      assert.equal(status === 403, !may, `${where} as ${role}: ${status} ${text}`);
      assert.ok(status !== 401 || route.path === '/login', `${where} as ${role}`);
      assert.ok(status < 500 || status === 503, `${where} as ${role}: ${status} ${text}`);
    }
  }
});

/** Takes a route as a page does; of an act without a reason, which does nothing. */
function take(
  { ask, origin }: AConsole,
  { method, path }: Route,
  session?: { cookie: string; csrf: string },
): Promise<Answered> {
  const at = path.replaceAll(/:\w+/g, '1');
  const headers = { origin, ...(session && { cookie: session.cookie }) };
  if (method === 'GET') return ask(at, { headers });
  return ask(at, { method, headers, body: { csrf: session?.csrf ?? '' } });
}

test('the manual shows every route with the role that it needs', () => {
  const manual = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  // A row is of one role and method: its paths, and whether they are under /api/v1 as well.
  const row = /^\| (\w+) +\| (GET|POST) +\| ([^|]+?) +\| (no|too|alone) +\|$/gm;
  const shown = [...manual.matchAll(row)].flatMap(([, role, method, paths = '', api]) => {
    const named = [...paths.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path);
    return [
      ...(api === 'alone' ? [] : named),
      ...(api === 'no' ? [] : named.map((path) => `/api/v1${path}`)),
    ].map((path) => `${method} ${path} ${role}`);
  });
  const known = routes.map(({ method, path, role }) => `${method} ${path} ${role}`);
  assert.deepEqual(shown.sort(), known.sort(), 'docs/operating.md, “The console”');
});

test('an act needs the token of its session, and comes from a page of the console', async () => {
  const console = await anEmptyConsole();
  const { ask, origin } = console;
  const { cookie, csrf } = await console.logIn(await console.anOperator('ada', 'admin'));
  const other = await console.logIn(await console.anOperator('bob', 'admin'));
  const add = (headers: Record<string, string>, body: Record<string, string>) =>
    ask('/acts/partners.add', {
      method: 'POST',
      headers,
      body: { partner: 'acme', reason: 'new', ...body },
    });
  for (const [headers, body] of [
    [{ cookie, origin }, {}],
    [{ cookie, origin }, { csrf: 'stale' }],
    [{ cookie, origin }, { csrf: other.csrf }],
    [{ cookie, origin: 'https://evil.example' }, { csrf }],
    [{ cookie, origin: 'null' }, { csrf }],
  ] as [Record<string, string>, Record<string, string>][]) {
    const { status, text } = await add(headers, body);
    assert.equal(status, 403, JSON.stringify([headers, body]));
    assert.match(text, /This did not come from a page of this console/);
  }
  assert.deepEqual(
    await console.store.open().query('SELECT FROM console.acts WHERE role <> $1', ['owner']),
    [],
  );
  const { status, text } = await add({ cookie, origin }, { csrf });
  assert.equal(status, 200, text);
});

test('a method that no route has is refused as that, and never an error of the console', async () => {
  const { ask, origin } = await anEmptyConsole();
  for (const [path, status] of [
    ['/login', 405],
    ['/api/v1/flow', 405],
    ['/assets/console.css', 405],
    ['/nowhere', 404],
  ] as const) {
    for (const method of ['QUERY', 'PROPFIND', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
      const { headers, ...answer } = await ask(path, { method, headers: { origin } });
      assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
      assert.equal(headers['x-frame-options'], 'DENY', `${method} ${path}`);
      if (status === 405) assert.match(String(headers['allow']), /GET/);
    }
  }
});

test('who asks too often without logging in is told to go slower, and others are answered', async (t) => {
  const console = await aConsole(t);
  const { ask } = console;
  const { cookie } = await console.logIn(await console.anOperator('ada', 'viewer'));
  const asked = { count: 0, refused: 0 };
  // A token comes back every 10 ms, so more are sent than that could ever give.
  while (asked.refused === 0 && asked.count < 20_000) {
    const answers = await Promise.all(
      ['/openapi.json', '/assets/console.css', '/nowhere', '/login'].map((path) => ask(path)),
    );
    asked.count += answers.length;
    asked.refused += answers.filter(({ status }) => status === 429).length;
  }
  assert.ok(asked.refused > 0, JSON.stringify(asked));
  assert.equal((await ask('/healthz')).status, 200);
  assert.equal((await ask('/acts', { headers: { cookie } })).status, 200);
});

test('only the address that the console was given is answered, and no answer may be framed or scripted', async () => {
  const { ask, origin } = await anEmptyConsole();
  for (const host of ['evil.example', '127.0.0.1:1', 'localhost']) {
    const { status } = await ask('/login', { headers: { host } });
    assert.equal(status, 421, host);
  }
  assert.equal((await ask('/healthz', { headers: { host: 'a-balancer' } })).status, 200);
  for (const path of [
    '/login',
    '/nowhere',
    '/api/v1/nowhere',
    '/assets/console.css',
    '/payments/%zz',
  ]) {
    const { headers, status } = await ask(path);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/, `${path} ${status}`);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.equal(headers['x-content-type-options'], 'nosniff', path);
  }
  const problem = await ask('/api/v1/acts', { headers: { origin } });
  assert.equal(problem.headers['content-type'], 'application/problem+json');
  assert.equal((JSON.parse(problem.text) as { code: string }).code, 'unauthorized');
});

test('an open console answers to names of this machine alone, and says so', async (t) => {
  const { ask, origin } = await aConsole(t, { CONSOLE_LOGIN: 'none', CONSOLE_ORIGIN: '' });
  const { port } = new URL(origin);
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) {
    assert.equal((await ask('/acts', { headers: { host } })).status, 200, host);
  }
  assert.equal((await ask('/acts', { headers: { host: `rebound.example:${port}` } })).status, 421);
  const session = JSON.parse((await ask('/api/v1/session')).text) as Record<string, string>;
  assert.deepEqual([session['operator'], session['login']], ['demo', 'none']);
  // A page elsewhere reads no answer, and yet could keep a stream open.
  const elsewhere = { headers: { origin: 'http://rebound.example' } };
  assert.equal((await ask('/flow/events', elsewhere)).status, 403);
  const asImage = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' };
  assert.equal((await ask('/flow/events', { headers: asImage })).status, 403);
  const byLink = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
  assert.equal((await ask('/acts', { headers: byLink })).status, 200);
  const asking = { method: 'POST', headers: { origin: 'http://rebound.example' } };
  const body = { csrf: session['csrf']!, partner: 'acme', reason: 'new' };
  assert.equal((await ask('/acts/partners.add', { ...asking, body })).status, 403);
});

test('a session ends by logging out, by another token and by being revoked, and its role is that of now', async () => {
  const console = await anEmptyConsole();
  const { ask, origin, store } = console;
  const owner = store.open();
  const token = await console.anOperator('ada', 'admin');
  const isIn = async (cookie: string) => (await ask('/acts', { headers: { cookie } })).status;
  const first = await console.logIn(token);
  assert.equal(await isIn(first.cookie), 200);
  const out = { method: 'POST', headers: { cookie: first.cookie, origin } };
  const { headers } = await ask('/logout', { ...out, body: { csrf: first.csrf } });
  assert.match(
    String(headers['set-cookie']),
    /^triplock=; Path=\/; HttpOnly; SameSite=Strict; Max-Age=0$/,
  );
  assert.equal(await isIn(first.cookie), 401);

  const second = await console.logIn(token);
  await owner.query(`UPDATE console.operators SET role = 'viewer' WHERE operator = 'ada'`);
  const act = { method: 'POST', headers: { cookie: second.cookie, origin } };
  const refused = await ask('/acts/partners.add', { ...act, body: { csrf: second.csrf } });
  assert.equal(refused.status, 403);
  await owner.query(`UPDATE console.sessions SET seen_at = now() - interval '61 minutes'`);
  assert.equal(await isIn(second.cookie), 401);
  const third = await console.logIn(token);
  await owner.query(`UPDATE console.operators SET revoked_at = now()`);
  assert.equal(await isIn(third.cookie), 401);
  const again = await ask('/login', { method: 'POST', headers: { origin }, body: { token } });
  assert.equal(again.status, 401);
  const stored = await owner.query('SELECT * FROM console.operators');
  assert.ok(!JSON.stringify(stored).includes(token), 'a token is stored as a hash');
});

test('wrong tokens, however many, keep nobody with a right one out, and wait for a look in a short line', async (t) => {
  const console = await aConsole(t);
  const { ask, origin } = console;
  const token = await console.anOperator('ada', 'viewer');
  const by = (bearer: string) =>
    ask('/api/v1/acts', { headers: { authorization: `Bearer ${bearer}` } });
  const byForm = (token: string) =>
    ask('/login', { method: 'POST', headers: { origin }, body: { token } });
  for (let n = 0; n < 20; n += 1) {
    assert.equal((await by(`wrong-${n}`)).status, 401);
    assert.equal((await byForm(`wrong-${n}`)).status, 401);
  }
  assert.equal((await byForm(token)).status, 303);
  assert.equal((await by(token)).status, 200);

  // All of one address, while the database answers nothing about tokens: one is looked up, and so
  // many wait.
  let statuses: number[] = [];
  const asked = await console.store.open().transaction(async (tx) => {
    await tx.query('LOCK TABLE console.operators IN ACCESS EXCLUSIVE MODE');
    const wrong = Array.from({ length: 60 }, (_, n) => (n % 2 === 0 ? by : byForm)(`wrong-${n}`));
    for (const each of wrong) void each.then(({ status }) => statuses.push(status));
    await eventually(async () => statuses.length === 60 - 17);
    return wrong;
  });
  assert.deepEqual(new Set(statuses), new Set([429]));
  statuses = [];
  await Promise.all(asked);
  assert.deepEqual(statuses, Array<number>(17).fill(401));

  // Whoever was let in is not in that line.
  const flood = Array.from({ length: 200 }, (_, n) => by(`wrong-${n}`));
  assert.equal((await by(token)).status, 200);
  await Promise.all(flood);
});

test('no page and no answer shows a card number that was set aside, and each dead letter keeps its id', async (t) => {
  const { ask, store } = await aConsole(t, { CONSOLE_LOGIN: 'none' });
  const owner = store.open();
  const number = '4242 4242 4242 4242';
  // An id of the broker's that looks like one by chance is no card's.
  const id = 'refused:partner-notifier:4000056655665556';
  const attributes = JSON.stringify({ txn_id: number, [number]: number, amount: '12' });
  const utf16 = Buffer.from(number, 'utf16le');
  await owner.query(
    `INSERT INTO notifier.refused_messages (consumer, message_id, reason, detail, data, attributes)
     SELECT 'partner-notifier', id, 'malformed', $2, data, $4::json
     FROM unnest($1::text[], $3::bytea[]) AS t (id, data)`,
    [
      [id.split(':')[2], 'm-2'],
      `no JSON: ${number}`,
      [Buffer.concat([Buffer.from([0xff]), utf16]), utf16],
      attributes,
    ],
  );
  await owner.query(
    `INSERT INTO auditor.operator_acts (act, subject, done_by, why) VALUES ('redrive', $1, 'bob', $2)`,
    [id, `a test of ${number}`],
  );
  const { csrf } = JSON.parse((await ask('/api/v1/session')).text) as { csrf: string };
  const texts: string[] = [];
  const see = async (path: string) => {
    const { status, text } = await ask(path);
    assert.equal(status, 200, text);
    texts.push(text);
    return text;
  };
  const dismissal = JSON.stringify({ id, reason: `once more ${number}` });
  const headers = { 'content-type': 'application/json', 'x-csrf-token': csrf };
  const path = `/dead-letters/${id}`;
  type Listed = { letters: { id: string }[] };
  const { letters } = JSON.parse(await see('/api/v1/dead-letters')) as Listed;
  const listed = letters.find((each) => each.id === id);
  assert.partialDeepStrictEqual(listed, { id, about: '[card number masked]' });
  await see('/api/v1/dead-letters/refused:partner-notifier:m-2');
  const letter = JSON.parse(await see(`/api/v1${path}`)) as { bytes: number };
  assert.partialDeepStrictEqual(letter, { id, bytes: 39, value: '[card number masked]' });
  for (const page of ['/dead-letters', path]) assert.ok((await see(page)).includes(id), page);
  const act = { method: 'POST', headers, body: dismissal };
  texts.push((await ask('/api/v1/acts/dead-letters.dismiss', act)).text);
  assert.match(texts.at(-1)!, new RegExp(`"id":"${id}","outcome":"dismissed"`));
  for (const page of ['/dead-letters?show=dismissed', '/acts', '/acts/1', '/api/v1/acts']) {
    await see(page);
  }
  const holds = texts.filter((text) => /4242 ?4242|NDI0MiA0|NAAyADQ|4\\u00002/.test(text));
  assert.deepEqual(holds, []);
});
