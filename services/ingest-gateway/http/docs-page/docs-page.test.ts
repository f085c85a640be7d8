import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { describeGateway } from '../../routes/write-openapi.ts';
import { httpRequest, startEdge } from '../../test/http-edge.ts';
import type { Document } from './document.ts';
import { renderDocs } from './render-docs.ts';

const document = JSON.parse(await describeGateway()) as Document;

test('the page tells of every operation, parameter, status and schema of the document', () => {
  const { body } = renderDocs(document);
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      assert.ok(body.includes(`<code>${method.toUpperCase()} ${path}</code>`), path);
      assert.ok(body.includes(`<section id="${operation.operationId!}">`));
      for (const status of Object.keys(operation.responses))
        assert.ok(body.includes(`<code>${status}</code>`));
      for (const { name } of operation.parameters ?? [])
        assert.ok(body.includes(`<code>${name}</code>`));
    }
  }
  for (const name of Object.keys(document.components.schemas)) {
    assert.ok(body.includes(`<section id="${name}">`), name);
  }
});

test('every link of the page leads somewhere', () => {
  const { body } = renderDocs(document);
  const links = [...body.matchAll(/href="([^"]+)"/g)].map(([, target]) => target!);
  for (const link of links) {
    assert.ok(link === '/openapi.json' || body.includes(`id="${link.slice(1)}"`), link);
  }
  assert.ok(links.length > 10);
});

test('the page fetches nothing, runs nothing, and its policy allows its own style only', () => {
  const { body, contentSecurityPolicy } = renderDocs(document);
  assert.doesNotMatch(body, /<script|<link|<img|<iframe|@import|url\(|\son\w+=|\sstyle=/i);
  const [, style] = /<style>(.*)<\/style>/s.exec(body)!;
  const hash = createHash('sha256').update(style!).digest('base64');
  assert.match(contentSecurityPolicy, /^default-src 'none'; /);
  assert.ok(contentSecurityPolicy.includes(`style-src 'sha256-${hash}'`));
});

test('whatever a description says is text', () => {
  const said = `<script>alert('"&')</script>`;
  const { body } = renderDocs({ ...document, info: { ...document.info, description: said } });
  assert.ok(body.includes('&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;'));
  assert.doesNotMatch(body, /<script/);
});

test('the page is served without an API key', async (t) => {
  const edge = await startEdge(t);
  const answer = await edge.exchange(httpRequest('GET /docs', { Authorization: undefined }));
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(answer.headers['content-security-policy']!, /^default-src 'none'/);
  assert.match(answer.body, /^<!doctype html>/);
});
