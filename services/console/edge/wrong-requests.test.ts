import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  aConsole,
  assertDescribed,
  type AConsole,
  type Answered,
  type Asking,
} from '../test/a-console.ts';
import { cleanupBy } from '@triplock/testing';

type Described = Readonly<Record<string, unknown>> & { type?: string; enum?: unknown[] };
type Operation = {
  parameters?: { in: 'path' | 'query'; name: string; schema: Described }[];
  requestBody?: { content: Record<string, { schema: { properties: Record<string, Described> } }> };
};
type Paths = Record<string, Record<string, Operation>>;

/** What is wrong with a request, and the field that its answer has to point at. */
type Wrong = Asking & { target: string; pointer?: string; status?: number };

const json = (body: unknown) => ({
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
});

const cleanup = cleanupBy(after);
let open: AConsole;
before(async () => {
  open = await aConsole(cleanup, { CONSOLE_LOGIN: 'none' });
});

const withIds = (path: string, id = '1') => path.replaceAll(/\{\w+\}/g, id);

function* wrongLooks(path: string, { parameters = [] }: Operation): Generator<Wrong> {
  const target = withIds(path);
  for (const name of ['no-such', '__proto__', 'constructor']) {
    yield { target: `${target}?${name}=1`, pointer: name };
  }
  for (const { in: place, name, schema } of parameters) {
    if (place === 'path') {
      for (const id of ['%00', '%F0%9F%92%B3', "'%20OR%201=1", 'x'.repeat(5_000), '9'.repeat(40)]) {
        yield { target: withIds(path, id) };
      }
      continue;
    }
    yield { target: `${target}?${name}=1&${name}=2`, pointer: name };
    yield { target: `${target}?${name}=a%00b`, pointer: name };
    if (schema.enum !== undefined) yield { target: `${target}?${name}=no-such`, pointer: name };
  }
}

function* wrongActs(target: string, { requestBody }: Operation): Generator<Wrong> {
  const { properties } = requestBody!.content['application/json']!.schema;
  const usual = { reason: 'a test' };
  for (const body of ['', '{', '[]', 'null', '"text"', '{"reason":']) {
    yield { ...json({}), target, body };
  }
  yield { ...json({}), target, pointer: 'reason' };
  yield { ...json({ ...usual, 'no-such': '1' }), target, pointer: 'no-such' };
  for (const [name, { type, enum: known }] of Object.entries(properties)) {
    yield { ...json({ ...usual, [name]: { of: 'more' } }), target };
    yield { ...json({ ...usual, [name]: null }), target };
    yield { ...json({ ...usual, [name]: 'a\0b' }), target, pointer: name };
    if (known !== undefined || type === 'integer') {
      yield { ...json({ ...usual, [name]: 'no-such' }), target, pointer: name };
    }
    if (type !== 'array')
      yield { ...json({ ...usual, [name]: ['1', '2'] }), target, pointer: name };
  }
  yield { target, body: '<a/>', headers: { 'content-type': 'text/xml' }, status: 415 };
  yield { ...json({ reason: 'x'.repeat(70_000) }), target, status: 413 };
}

test('whatever is wrong with a request of the API, its answer says what, and nothing is an error of the console', async () => {
  const { ask, origin, store } = open;
  const { paths } = JSON.parse((await ask('/openapi.json')).text) as { paths: Paths };
  const { csrf } = JSON.parse((await ask('/api/v1/session')).text) as { csrf: string };
  const found: string[] = [];
  let asked = 0;
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const all = method === 'get' ? wrongLooks(path, operation) : wrongActs(path, operation);
      for (const { target, pointer, status, ...asking } of all) {
        const headers = { origin, 'x-csrf-token': csrf, ...asking.headers };
        const answered = await ask(target, { ...asking, method: method.toUpperCase(), headers });
        asked += 1;
        const why = complaint(answered, { pointer, status });
        const what = `${method} ${target} ${JSON.stringify(asking.body ?? '')}`.slice(0, 200);
        if (why !== undefined) found.push(`${what}: ${why}: ${answered.text.slice(0, 300)}`);
        else
          assertDescribed({ method: method.toUpperCase() as 'GET', path: path as '/' }, answered);
      }
    }
  }
  assert.deepEqual(found, []);
  assert.ok(asked > 300, `${asked} were asked`);
  assert.deepEqual(await store.open().query('SELECT FROM console.acts'), []);
});

function complaint(
  { status, text }: Answered,
  wanted: { pointer: string | undefined; status: number | undefined },
): string | undefined {
  if (status !== (wanted.status ?? status) || status < 400 || status >= 500) return `${status}`;
  const { detail, errors = [] } = JSON.parse(text) as {
    detail: string;
    errors?: { pointer: string; detail: string }[];
  };
  if (detail.length < 20) return 'says nothing';
  const { pointer } = wanted;
  if (pointer === undefined) return undefined;
  const told = errors.find((each) => each.pointer === `#/${pointer}`);
  return told === undefined || told.detail.includes('undefined') ? 'points nowhere' : undefined;
}

test('what no column can hold is refused by a page as well, and what it does not know is left aside', async () => {
  const { ask } = open;
  for (const path of [
    '/payments?reference=%00&partner=acme',
    '/payments/find?q=1&partner=a%00',
    '/webhooks?partner=%00',
    '/settlements?partner=%00',
    '/partners?after=%00',
    '/acts?by=%00',
    '/dead-letters?show=no-such',
  ]) {
    const { status, text } = await ask(path);
    assert.equal(status, 400, `${path}: ${text}`);
    assert.match(text, /expected/, path);
  }
  assert.equal((await ask('/payments?from-a-mail=1&partner=')).status, 200);
});
