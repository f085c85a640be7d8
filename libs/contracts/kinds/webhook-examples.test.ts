import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Compile, type TObject } from '../schema.ts';
import { problemCodes } from '../http/problem.ts';

type Example = { type: string; sequence?: number };
type Document = {
  webhooks: Record<
    string,
    { post: { requestBody: { content: Record<string, { schema: TObject }> } } }
  >;
  components: { schemas: Record<string, unknown> };
};

const read = (name: string) =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8');
const page = read('partners.md');
const document = JSON.parse(read('openapi.json')) as Document;

/** What the page shows of each event: a text that begins with its type. */
function examples(): Example[] {
  const blocks = [...page.matchAll(/^```json\n(\{"type"[^]*?)^```$/gm)];
  const texts = blocks.flatMap(([, shown = '']) => shown.split(/^(?=\{"type")/m));
  return texts.map((text) => JSON.parse(text) as Example);
}

/** The schema with what it refers to in its place. */
function whole(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(whole);
  const { $ref: reference } = schema as { $ref?: string };
  const [, name] = /^#\/components\/schemas\/(\w+)$/.exec(reference ?? '') ?? [];
  if (name !== undefined) return whole(document.components.schemas[name]);
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, whole(value)]));
}

test('partners are shown one example of every webhook, and each is what the document says', () => {
  const shown = examples();
  assert.deepEqual(
    shown.map(({ type }) => type).toSorted(),
    Object.keys(document.webhooks).toSorted(),
  );
  for (const example of shown) {
    const { content } = document.webhooks[example.type]!.post.requestBody;
    const schema = whole(content['application/json']!.schema) as TObject;
    assert.deepEqual(Compile(schema).Errors(example), [], example.type);
    assert.equal('sequence' in example, 'sequence' in schema.properties, example.type);
  }
});

test('partners are told what to do for every status that a refusal has', () => {
  const answers = page.slice(page.indexOf('| answer'), page.indexOf('A refusal is'));
  for (const { status } of Object.values(problemCodes)) {
    assert.match(answers, new RegExp(`\\b${status}\\b`), `${status} is not on the page`);
  }
});
