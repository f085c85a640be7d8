import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paymentRequestSchema } from '@triplock/contracts';
import { describeGateway } from './describe-gateway.ts';
import { httpRequest, startEdge } from '../test/http-edge.ts';

type Document = {
  openapi: string;
  paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
  components: { schemas: Record<string, unknown> };
};

test('the document shows the schema that validates', async () => {
  const document = JSON.parse(await describeGateway()) as Document;
  assert.equal(document.openapi, '3.1.0');
  const schema: unknown = JSON.parse(JSON.stringify(paymentRequestSchema));
  assert.deepEqual(document.components.schemas['PaymentRequest'], schema);
});

test('every reference in the document leads somewhere', async () => {
  const text = await describeGateway();
  const { components } = JSON.parse(text) as Document;
  const references = [...text.matchAll(/"\$ref": "([^"]+)"/g)].map(([, reference]) => reference!);
  assert.ok(references.length > 0);
  for (const reference of references) {
    assert.ok(Object.hasOwn(components.schemas, reference.replace('#/components/schemas/', '')));
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
