import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { parseIdempotencyKey, paymentRequestSchema } from '@triplock/contracts';
import { eventTypes } from '@triplock/payments';
import fc from 'fast-check';
import { describeGateway } from '../routes/gateway-routes.ts';
import { httpRequest, startEdge } from '../test/http-edge.ts';

type Document = {
  openapi: string;
  paths: Record<string, Record<string, { tags: string[]; responses: Record<string, unknown> }>>;
  servers: { url: string }[];
  webhooks: Record<string, { post: { parameters: { name: string }[] } }>;
  components: { schemas: Record<string, unknown>; headers: Record<string, unknown> };
};

test('the document shows the schema that validates', async () => {
  const document = JSON.parse(await describeGateway()) as Document;
  assert.equal(document.openapi, '3.1.0');
  const text = JSON.stringify(paymentRequestSchema);
  // The one value of a field, in the word that clients obey.
  const schema: unknown = JSON.parse(text.replaceAll(/"const":("\w+")/g, '"enum":[$1]'));
  assert.deepEqual(document.components.schemas['PaymentRequest'], schema);
});

test('every reference in the document leads somewhere', async () => {
  const text = await describeGateway();
  const { components } = JSON.parse(text) as Document;
  const references = [...text.matchAll(/"\$ref": "([^"]+)"/g)].map(([, reference]) => reference!);
  assert.ok(references.length > 0);
  for (const reference of references) {
    const [, kind, name] = /^#\/components\/(\w+)\/(\w+)$/.exec(reference) ?? [];
    assert.ok(Object.hasOwn(components[kind as keyof typeof components] ?? {}, name!), reference);
  }
});

test('every answer in the document names its request', async () => {
  const { paths } = JSON.parse(await describeGateway()) as Document;
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    for (const answer of Object.values(operation.responses)) {
      assert.ok((answer as { headers: object }).headers['Request-Id' as never]);
    }
  }
});

test('every problem has one media type, and every other answer in JSON another', async () => {
  const { paths } = JSON.parse(await describeGateway()) as Document;
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    for (const [status, answer] of Object.entries(operation.responses)) {
      const types = Object.keys((answer as { content?: object }).content ?? {});
      const expected =
        status >= '400'
          ? /^application\/problem\+json$/
          : /^(application\/json|application\/xml|text\/csv)$/;
      assert.equal(types.length, status === '204' ? 0 : 1);
      if (status !== '204') assert.match(types[0]!, expected);
    }
  }
});

test('clients that are generated hold every amount, send what was set, and have a place for each call', async () => {
  const document = JSON.parse(await describeGateway()) as Document;
  const { paths } = document;
  for (const each of schemasIn(document)) {
    const { type, format, uniqueItems, const: only } = each;
    if (type === 'integer') assert.match(String(format), /^int(32|64)$/);
    assert.notEqual(type, 'null', 'of a field that is always null few generators make anything');
    assert.equal(uniqueItems, undefined, 'a set of enums compiles in few clients');
    assert.equal(only, undefined, 'a client of ogen sends a constant that nobody set');
  }
  const operations = Object.entries(paths).flatMap(([path, each]) =>
    Object.values(each).map(({ tags }): [string, string[]] => [path, tags]),
  );
  const tags = new Map(operations);
  assert.deepEqual(tags.get('/v1/payments/{id}'), ['Payments']);
  assert.deepEqual(tags.get('/v1/payments/{id}/refunds'), ['Refunds']);
  assert.deepEqual(tags.get('/v1/webhook-endpoint/secrets'), ['Webhook endpoints']);
  assert.deepEqual(tags.get('/v1/balance'), ['Balances']);
  assert.deepEqual(tags.get('/v1/settlements/{date}.csv'), ['Settlements']);
});

/** Whatever says a `type`. */
function* schemasIn(part: unknown): Generator<Record<string, unknown>> {
  if (typeof part !== 'object' || part === null) return;
  if ('type' in part) yield part;
  for (const each of Object.values(part)) yield* schemasIn(each);
}

test('the document allows those keys that are read, and no others', async () => {
  const { paths } = JSON.parse(await describeGateway()) as {
    paths: Record<
      string,
      { post: { parameters: { name: string; schema: { pattern: string } }[] } }
    >;
  };
  const header = paths['/v1/payments']!.post.parameters.find(
    ({ name }) => name === 'Idempotency-Key',
  )!;
  const allowed = new RegExp(header.schema.pattern, 'u');
  const agrees = (line: string) =>
    assert.equal(allowed.test(line), parseIdempotencyKey([line]).outcome === 'key', line);
  const long = 'k'.repeat(255);
  const whole = [
    long,
    `${long}k`,
    `"${long}"`,
    `"${long}k"`,
    `"${'\\\\'.repeat(255)}"`,
    '""',
    '" "',
  ];
  for (const line of ['', ' ', 'a b', ' a\t', 'a"b', 'a,b', '"a,b"', 'a;b', '"a', '"a"b', ...whole])
    agrees(line);
  const unit = fc.constantFrom(...'ab"\\,; \t\u007f\u00e9');
  fc.assert(fc.property(fc.string({ unit, maxLength: 8 }), agrees));
});

test('the document names every webhook, and where the gateway is', async () => {
  const { webhooks, servers } = JSON.parse(await describeGateway()) as Document;
  assert.deepEqual(
    servers.map(({ url }) => url),
    ['/'],
  );
  const ofEndpoints = ['endpoint.disabled', 'endpoint.test', 'endpoint.verification'];
  const types = [...eventTypes, ...ofEndpoints];
  assert.deepEqual(Object.keys(webhooks).sort(), types.sort());
  for (const { post } of Object.values(webhooks)) {
    const headers = post.parameters.map(({ name }) => name);
    assert.deepEqual(headers, ['webhook-id', 'webhook-timestamp', 'webhook-signature']);
  }
});

test('the document is served, and describes the routes only', async (t) => {
  const edge = await startEdge(t);
  const answer = await edge.exchange(httpRequest('GET /openapi.json'));
  const { paths } = JSON.parse(answer.body) as Document;
  assert.deepEqual(Object.keys(paths), ['/v1/payments', '/v1/payments/{id}', '/bug']);
});

test('what a 404 of an unknown path points at is there, without an API key', async (t) => {
  const edge = await startEdge(t);
  const lost = await edge.exchange(httpRequest('GET /v1/payment'));
  const { detail } = JSON.parse(lost.body) as { detail: string };
  const paths = [...detail.matchAll(/GET (\/[\w.]+)/g)].map(([, path]) => path!);
  assert.deepEqual(paths, ['/docs', '/openapi.json']);
  for (const path of paths) {
    const answer = await edge.exchange(
      `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    );
    assert.equal(answer.status, 200, path);
  }
});

test('a document is the same bytes for everybody, and whoever has them by their tag gets no more', async (t) => {
  const edge = await startEdge(t);
  for (const path of [
    '/openapi.json',
    '/docs',
    '/docs/yaml',
    '/docs/static/swagger-ui-bundle.js',
  ]) {
    const { status, headers, body } = await edge.exchange(httpRequest(`GET ${path}`));
    assert.deepEqual([status, headers['cache-control']], [200, 'no-cache'], path);
    assert.match(headers['etag']!, /^"[\w-]{22}"$/);
    assert.ok(body.length > 100);
    for (const known of [headers['etag'], `"other", W/${headers['etag']}`, '*']) {
      const again = await edge.exchange(httpRequest(`GET ${path}`, { 'If-None-Match': known }));
      assert.deepEqual([again.status, again.body], [304, ''], `${path} ${known}`);
      assert.equal(again.headers['etag'], headers['etag']);
    }
    const other = await edge.exchange(httpRequest(`GET ${path}`, { 'If-None-Match': '"other"' }));
    assert.equal(other.body, body);
  }
});

async function openDocs(t: TestContext) {
  const edge = await startEdge(t);
  const get = (path: string) =>
    edge.exchange(httpRequest(`GET ${path}`, { Authorization: undefined }));
  const page = await get('/docs');
  const named = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!);
  return { get, page, named };
}

test('the page is served without an API key, under a policy that loads nothing from elsewhere', async (t) => {
  const { page, get } = await openDocs(t);
  assert.equal(page.status, 200);
  assert.match(page.headers['content-type']!, /^text\/html; charset=utf-8$/i);
  const policy = page.headers['content-security-policy']!;
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; /);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  assert.equal(page.headers['x-content-type-options'], 'nosniff');
  assert.equal((await get('/docs/')).status, 200);
});

test('all that the page fetches comes from the gateway, and nothing of it is inline', async (t) => {
  const { page, named, get } = await openDocs(t);
  assert.ok(named.length >= 5);
  for (const path of named) {
    assert.match(path, /^\/docs\/static\//);
    assert.equal((await get(path)).status, 200, path);
  }
  assert.doesNotMatch(page.body, /<style|<script(?! src)|\son\w+=|\sstyle=/i);
  const { body } = await get('/docs/static/swagger-initializer.js');
  assert.doesNotMatch(body, /https?:\/\/(?!stackoverflow)/);
});

test('it shows the document that is served for programs', async (t) => {
  const { get } = await openDocs(t);
  const [shown, served] = await Promise.all([get('/docs/json'), get('/openapi.json')]);
  assert.deepEqual(JSON.parse(shown.body), JSON.parse(served.body));
  const yaml = await get('/docs/yaml');
  assert.equal(yaml.headers['content-type'], 'application/yaml');
  const { paths } = JSON.parse(served.body) as { paths: object };
  assert.deepEqual(
    [...yaml.body.matchAll(/^ {2}(\/.+):$/gm)].map(([, path]) => path),
    Object.keys(paths),
  );
});

test('what the page has not is not found, and the routes of partners stay closed', async (t) => {
  const { get } = await openDocs(t);
  for (const path of ['/docs/static/nothing.js', '/docs/static/..%2f..%2fpackage.json']) {
    const lost = await get(path);
    assert.equal(lost.status, 404, path);
    assert.equal(lost.headers['content-type'], 'application/problem+json');
  }
  assert.equal((await get('/v1/payments/x')).status, 401);
});
