import { test } from 'node:test';
import assert from 'node:assert/strict';
import { parseDatabaseName } from './calls.ts';
import { isInvalidated, isRefusal, retryDelayOf, status } from './errors.ts';
import { decodeRows, encodeParams, encodeValue, mutationsOf } from './values.ts';

test('whole numbers travel as text, and one that is not exact is refused', () => {
  const beyond = 2n ** 53n + 1n;
  assert.deepEqual(encodeValue(beyond), { stringValue: '9007199254740993' });
  assert.deepEqual(encodeValue(7), { stringValue: '7' });
  for (const inexact of [0.1, 2 ** 53, Number.NaN]) {
    assert.throws(() => encodeValue(inexact), RangeError);
  }
  const field = (name: string, code: string) => ({ name, type: { code } });
  const rows = decodeRows<object>({
    metadata: { rowType: { fields: [field('n', 'INT64'), field('at', 'TIMESTAMP')] } },
    rows: [
      {
        values: [{ stringValue: '9007199254740993' }, { stringValue: '2026-03-04T05:06:07.089Z' }],
      },
      { values: [{ nullValue: 0 }, { nullValue: 0 }] },
    ],
  });
  const at = new Date('2026-03-04T05:06:07.089Z');
  assert.deepEqual(rows, [
    { n: beyond, at },
    { n: null, at: null },
  ]);
});

test('a parameter has the type of its value, and null takes any', () => {
  const { paramTypes } = encodeParams({ id: 'a', n: 1n, ids: [], epochs: [1n], none: null });
  const [text, number] = [{ code: 'STRING' }, { code: 'INT64' }];
  assert.deepEqual(paramTypes, {
    id: text,
    n: number,
    ids: { code: 'ARRAY', arrayElementType: text },
    epochs: { code: 'ARRAY', arrayElementType: number },
  });
});

test('rows that follow one another and are alike are one mutation, and order is kept', () => {
  const entry = (id: string) => ({ kind: 'insert' as const, table: 'entries', row: { id, n: 1 } });
  const mutations = mutationsOf([
    entry('a'),
    entry('b'),
    { kind: 'delete', table: 'entries', key: ['c'] },
    { kind: 'insert', table: 'entries', row: { id: 'd', n: undefined } },
    entry('e'),
  ]);
  const kinds = mutations.map((mutation) => Object.keys(mutation)[0]);
  assert.deepEqual(kinds, ['insert', 'delete', 'insert', 'insert']);
  const [first, , third] = mutations as { insert: { columns: string[]; values: object[] } }[];
  assert.equal(first!.insert.values.length, 2);
  assert.deepEqual(third!.insert.columns, ['id']);
});

test('the time that Spanner asks to wait is read from an error', () => {
  // RetryInfo { retry_delay { seconds: 1, nanos: 500 000 000 } }
  const info = Buffer.from([0x0a, 0x08, 0x08, 0x01, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]);
  const metadata = { get: (name: string) => (name === 'google.rpc.retryinfo-bin' ? [info] : []) };
  assert.equal(retryDelayOf(Object.assign(new Error('aborted'), { metadata })), 1_500);
  assert.equal(retryDelayOf(new Error('aborted')), undefined);
});

test('a database is named in full or not at all', () => {
  const name = parseDatabaseName('projects/p/instances/i/databases/d');
  assert.deepEqual(name, { project: 'p', instance: 'i', database: 'd' });
  for (const wrong of ['', 'd', 'projects/p/instances/i', 'projects/p/instances/i/databases/d/e']) {
    assert.throws(() => parseDatabaseName(wrong), /is not of the form/);
  }
});

const ended = (code: number, message: string) => Object.assign(new Error(message), { code });

test('a commit is refused for good only for what it would have written', () => {
  const check = ended(status.failedPrecondition, 'Check constraint amount_is_positive is violated');
  assert.deepEqual([isRefusal(check), isInvalidated(check)], [true, false]);
});

test('a transaction that a later one of its session invalidated is tried again', () => {
  const later = ended(
    status.failedPrecondition,
    'This transaction has been invalidated by a later transaction in the same session.',
  );
  assert.deepEqual([isRefusal(later), isInvalidated(later)], [false, true]);
});
