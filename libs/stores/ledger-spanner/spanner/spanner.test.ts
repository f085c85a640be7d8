import { test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { OtherVersionError } from '@triplock/postgres';
import { DeadlineError } from '@triplock/runtime';
import { parseDatabaseName, type Calls } from './calls.ts';
import { isInvalidated, isRefusal, retryDelayOf, status } from './errors.ts';
import { decodeRows, encodeParams, encodeValue, mutationsOf } from './values.ts';
import { createTestSpanner } from '../test/test-spanner.ts';
import { migrateSpanner, spannerMigrationSets } from './schema.ts';
import { keepSessions } from './sessions.ts';

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

test('migrating again, by two at once, does nothing, and a changed or unknown file is refused', async (context) => {
  const store = await createTestSpanner(context, 'changed');
  const again = await Promise.all([1, 2].map(() => migrateSpanner(store, spannerMigrationSets)));
  assert.deepEqual(again, [[], []]);

  const folder = await mkdtemp(join(tmpdir(), 'migrations-'));
  context.after(() => rm(folder, { recursive: true }));
  const set = { owner: 'example', folder: pathToFileURL(`${folder}/`) };
  const table = (name: string) =>
    `-- A table.\nCREATE TABLE IF NOT EXISTS ${name} (n INT64 NOT NULL) PRIMARY KEY (n);\n`;
  await writeFile(join(folder, '0001-first.sql'), table('first'));
  await writeFile(join(folder, '0002-half.sql'), `${table('half')}NONSENSE;`);
  await assert.rejects(migrateSpanner(store, [set]));
  await writeFile(join(folder, '0002-half.sql'), table('half'));
  const applied = await Promise.all([1, 2].map(() => migrateSpanner(store, [set])));
  assert.ok(applied.flat().every(({ file }) => file === '0002-half.sql'));
  assert.ok(applied.flat().length >= 1);

  await writeFile(join(folder, '0001-first.sql'), table('other'));
  await assert.rejects(migrateSpanner(store, [set]), OtherVersionError);
  await rm(join(folder, '0001-first.sql'));
  await assert.rejects(migrateSpanner(store, [set]), /which this version does not know/);
});

test('every statement of the migrations does no harm a second time', async (context) => {
  const store = await createTestSpanner(context, 'changed');
  for (const { owner, folder } of spannerMigrationSets) {
    const files = await readdir(folder);
    const once = await migrateSpanner(store, [{ owner: `${owner}, a second time`, folder }]);
    assert.deepEqual(
      once.map(({ file }) => file),
      files.sort(),
    );
  }
});

/** Sessions that are made at once; nothing else is asked of the calls. */
function sessionsOf(max: number, waitMs?: number) {
  let made = 0;
  const calls = {
    createSession: async () => `session-${(made += 1)}`,
    deleteSession: async () => undefined,
  } as Partial<Calls> as Calls;
  return { sessions: keepSessions(calls, max, waitMs), made: () => made };
}

test('who finds no session free gets one in order, and no more are made than allowed', async () => {
  const { sessions, made } = sessionsOf(2);
  const held = Promise.withResolvers<void>();
  const order: number[] = [];
  const all = [0, 1, 2, 3, 4].map((n) =>
    sessions.lend(async () => {
      order.push(n);
      await held.promise;
    }),
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, [0, 1]);
  held.resolve();
  await Promise.all(all);
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.equal(made(), 2);
});

test('while sessions hang, waiting ends in time, the work is not begun, and others go on afterwards', async () => {
  const { sessions } = sessionsOf(1, 20);
  const hanging = Promise.withResolvers<void>();
  const first = sessions.lend(() => hanging.promise);
  let begun = 0;
  const late = Array.from({ length: 100 }, () => sessions.lend(async () => (begun += 1)));
  const outcomes = await Promise.allSettled(late);
  assert.ok(outcomes.every((each) => each.status === 'rejected'));
  await assert.rejects(late[0]!, DeadlineError);
  hanging.resolve();
  await first;
  assert.equal(await sessions.lend(async () => 'mine'), 'mine');
  assert.equal(begun, 0);
  await sessions.close();
});
