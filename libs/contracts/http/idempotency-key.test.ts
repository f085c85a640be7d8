import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseIdempotencyKey } from './idempotency-key.ts';

const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code));
const anyKey = fc.string({ unit: printable, minLength: 1, maxLength: 255 });
const bareKey = anyKey.filter(
  (key) => key.trim() === key && !key.startsWith('"') && !/[,;]/.test(key),
);
const outerSpace = fc.string({ unit: fc.constantFrom(' ', '\t'), maxLength: 3 });

test('a bare key is the key', () => {
  fc.assert(fc.property(bareKey, (key) => assert.equal(keyOf(key), key)));
});

test('every printable key can be sent as a structured-field string', () => {
  fc.assert(fc.property(anyKey, (key) => assert.equal(keyOf(quoted(key)), key)));
});

test('bare and quoted are the same key, whatever white space surrounds them', () => {
  fc.assert(
    fc.property(bareKey, outerSpace, outerSpace, (key, before, after) => {
      assert.equal(keyOf(before + key + after), keyOf(before + quoted(key) + after));
    }),
  );
});

test('white space inside the quotes is part of the key', () => {
  assert.equal(keyOf('" a "'), ' a ');
});

test('any header value gets an answer, and a key is always 1 to 255 printable characters', () => {
  const line = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('"', '\\', 'a', ' ', ';') }),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 3 }), (lines) => {
      const parsed = parseIdempotencyKey(lines);
      if (parsed.outcome === 'key') assert.match(parsed.key, /^[ -~]{1,255}$/);
      else assert.ok(parsed.detail.length > 0);
    }),
  );
});

test('no header is a missing key', () => {
  assert.equal(parseIdempotencyKey([]).outcome, 'missing');
});

const invalid: readonly [what: string, lines: string[]][] = [
  ['an empty header', ['']],
  ['white space only', [' \t']],
  ['an empty string', ['""']],
  ['a second header', ['a', 'b']],
  ['the same header twice', ['a', 'a']],
  ['two headers that a proxy joined', ['a, b']],
  ['two strings that a proxy joined', ['"a", "b"']],
  ['parameters after a string', ['"a";v=1']],
  ['parameters after a bare key', ['a;v=1']],
  ['text after a string', ['"a"b']],
  ['quotes that do not close', ['"a']],
  ['a quote alone', ['"']],
  ['quotes closed by an escape', [String.raw`"a\"`]],
  ['an unknown escape', [String.raw`"a\n"`]],
  ['a character beyond ASCII', ['caf\u00e9']],
  ['a character beyond ASCII in quotes', ['"caf\u00e9"']],
  ['UTF-8 as Node reads it', [Buffer.from('€').toString('latin1')]],
  ['DEL', ['a\x7f']],
  ['a tab inside', ['a\tb']],
  ['a no-break space at the end', ['a\u00a0']],
  ['256 characters', ['k'.repeat(256)]],
  ['256 characters in quotes', [quoted('k'.repeat(256))]],
];

for (const [what, lines] of invalid) {
  test(`${what} is no key`, () => {
    assert.equal(parseIdempotencyKey(lines).outcome, 'invalid');
  });
}

test('255 characters are a key even when each of them is escaped', () => {
  assert.equal(keyOf(quoted('"'.repeat(255))), '"'.repeat(255));
});

test('a megabyte of white space costs linear time', () => {
  const started = performance.now();
  parseIdempotencyKey([`a${' '.repeat(1_000_000)}b`]);
  // Milliseconds; quadratic time would be many minutes.
  assert.ok(performance.now() - started < 5_000);
});

function keyOf(line: string): string | undefined {
  const parsed = parseIdempotencyKey([line]);
  return parsed.outcome === 'key' ? parsed.key : undefined;
}

function quoted(key: string): string {
  return `"${key.replace(/["\\]/g, '\\$&')}"`;
}
