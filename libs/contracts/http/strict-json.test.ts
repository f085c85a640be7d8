import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import fc from 'fast-check';
import { parseStrictJson } from './strict-json.ts';

const { json } = fc.letrec<{ json: JsonValue }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom(null, true, false),
    fc.maxSafeInteger(),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('json'), { maxLength: 4 }),
    fc
      .dictionary(fc.string({ unit: 'grapheme' }), tie('json'), {
        maxKeys: 4,
        noNullPrototype: true,
      })
      .filter((object) => !Object.hasOwn(object, '__proto__')),
  ),
}));

// Texts that are nearly JSON find more than random bytes do.
const nearlyJson = fc
  .array(
    fc.constantFrom(
      ...['{', '}', '[', ']', ',', ':', '"', '"a"', '"\\u0061"', '"\\ud83d', '\\ude00"', '\\'],
      ...['0', '1', '-', '.', 'e', '9007199254740993', 'true', 'null', ' ', '\n', '\u0001', '😀'],
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(''));

test('what JSON.stringify writes is read back as it was, however it is spaced', () => {
  fc.assert(
    fc.property(json, fc.constantFrom(0, 1, '\t'), (value, spacing) => {
      const text = JSON.stringify(value, undefined, spacing);
      assert.deepEqual(read(text), { outcome: 'value', value: JSON.parse(text) as unknown });
    }),
  );
});

test('what is accepted means the same to JSON.parse', () => {
  fc.assert(
    fc.property(nearlyJson, (text) => {
      const result = read(text);
      if (result.outcome === 'value') assert.deepEqual(result.value, JSON.parse(text));
    }),
    { numRuns: 5_000 },
  );
});

test('any bytes get an answer and never an exception', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    nearlyJson.map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(bytes, (each) => {
      const result = parseStrictJson(Buffer.from(each));
      assert.ok(result.outcome === 'value' || /^#/.test(result.pointer));
    }),
    { numRuns: 5_000 },
  );
});

const refused: readonly [what: string, text: string | Buffer, pointer: string][] = [
  ['nothing', '', '#'],
  ['white space only', ' \n', '#'],
  ['a byte order mark', '\ufeff{}', '#'],
  ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22]), '#'],
  ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), '#'],
  ['a surrogate written as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), '#'],
  ['UTF-16', Buffer.from('{}', 'utf16le'), '#'],
  ['an escaped high surrogate alone', String.raw`{"a":"\ud800"}`, '#/a'],
  ['an escaped low surrogate alone', String.raw`{"a":"x\udc00"}`, '#/a'],
  ['escaped surrogates in the wrong order', String.raw`{"a":"\udc00\ud800"}`, '#/a'],
  ['a lone surrogate in a name', String.raw`{"\ud800":1}`, '#'],
  ['a name twice', '{"a":1,"b":{},"a":1}', '#/a'],
  ['a name twice, once escaped', String.raw`{"b":{"a":1,"\u0061":2}}`, '#/b/a'],
  ['a name that objects inherit, twice', '{"toString":1,"toString":1}', '#/toString'],
  ['__proto__', '{"a":[{"__proto__":{"admin":true}}]}', '#/a/0/__proto__'],
  ['__proto__ in disguise', String.raw`{"\u005f_proto__":1}`, '#/__proto__'],
  ['a fraction', '{"amount":1.0}', '#/amount'],
  ['an exponent', '{"amount":1e3}', '#/amount'],
  ['minus zero', '{"amount":-0}', '#/amount'],
  ['a leading zero', '{"amount":01}', '#/amount'],
  ['a plus sign', '{"amount":+1}', '#/amount'],
  ['a minus sign alone', '{"amount":-}', '#/amount'],
  ['2^53', '{"amount":9007199254740992}', '#/amount'],
  ['2^53 + 1, which JSON.parse would round', '{"amount":9007199254740993}', '#/amount'],
  ['-2^53', '{"amount":-9007199254740992}', '#/amount'],
  ['a number of a thousand digits', `{"amount":${'9'.repeat(1_000)}}`, '#/amount'],
  ['NaN', '{"amount":NaN}', '#/amount'],
  ['a trailing comma in an object', '{"a":1,}', '#'],
  ['a trailing comma in an array', '[1,]', '#'],
  ['a missing comma', '[1 2]', '#'],
  ['a missing colon', '{"a" 1}', '#/a'],
  ['a name without quotes', '{a:1}', '#'],
  ['single quotes', "{'a':1}", '#'],
  ['a comment', '{}//', '#'],
  ['a second value', '{}{}', '#'],
  ['a NUL after the value', '{}\0', '#'],
  ['a half object', '{"a":', '#/a'],
  ['a half string', '{"a":"b', '#/a'],
  ['a raw line feed in a string', '"a\nb"', '#'],
  ['an unknown escape', String.raw`"\x41"`, '#'],
  ['a half escape', String.raw`"\u00`, '#'],
  ['a word that is none', 'nul', '#'],
  ['a no-break space around the value', '\u00a0{}', '#'],
];

for (const [what, text, pointer] of refused) {
  test(`${what} is refused and pointed at`, () => {
    const result = read(text);
    assert.equal(result.outcome, 'refused');
    assert.equal(result.outcome === 'refused' && result.pointer, pointer);
  });
}

test('the largest integers and paired surrogates are read', () => {
  const text = String.raw`[9007199254740991,-9007199254740991,0,"\ud83d\ude00\/\b\f\n\r\t\"\\"]`;
  const value = [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 0, '😀/\b\f\n\r\t"\\'];
  assert.deepEqual(read(text), { outcome: 'value', value });
});

test('sixteen levels are read, a seventeenth is refused, and a million cost no stack', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  assert.equal(read(nested(16)).outcome, 'value');
  assert.equal(read(nested(17)).outcome, 'refused');
  assert.equal(read(nested(1_000_000)).outcome, 'refused');
  assert.equal(read('{"a":['.repeat(500_000)).outcome, 'refused');
});

test('names that every object inherits are ordinary names', () => {
  const result = read('{"constructor":"a","hasOwnProperty":"b","toString":"c"}');
  assert.equal(result.outcome, 'value');
  assert.deepEqual(Object.values((result as { value: object }).value), ['a', 'b', 'c']);
});

test('a refusal carries no more of a long name than its beginning', () => {
  const result = read(`{"${'n'.repeat(50_000)}":1.5}`);
  assert.ok(JSON.stringify(result).length < 300);
});

function read(text: string | Buffer) {
  return parseStrictJson(Buffer.isBuffer(text) ? text : Buffer.from(text, 'utf8'));
}
