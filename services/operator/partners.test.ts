import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestDatabase, freePort } from '@triplock/testing';
import { runOperator } from './test/run-operator.ts';

test('partners of a system elsewhere are managed by its database', async (t) => {
  const store = await createTestDatabase(t);
  const run = (...words: string[]) =>
    runOperator(['partners', ...words, '--json'], {
      PARTNERS_DATABASE_URL: store.url('triplock_partners'),
    });
  const added = await run('add', 'acme');
  assert.equal(added.code, 0, added.stderr);
  const { id, apiKey } = JSON.parse(added.stdout) as Record<string, string>;
  assert.equal(id, 'acme');
  const listed = JSON.parse((await run('list')).stdout) as {
    id: string;
    keys: { prefix: string }[];
  }[];
  assert.deepEqual(
    listed.map((partner) => partner.id),
    ['acme'],
  );
  assert.ok(apiKey!.startsWith(listed[0]!.keys[0]!.prefix));
  const again = await run('add', 'acme');
  assert.deepEqual(
    [again.code, again.stderr.trim()],
    [1, 'triplock partners: there is a partner acme already'],
  );
});

test('a database that does not answer is reported in one line, without its password', async () => {
  const port = await freePort();
  // The second has two addresses on many a machine.
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `postgres://triplock_partners:hunter2@${host}:${port}/triplock`;
    const { code, stderr } = await runOperator(['partners', 'list'], {
      PARTNERS_DATABASE_URL: url,
    });
    assert.equal(code, 1);
    const beginning = `triplock partners: postgres://${host}:${port}/triplock: connect ECONNREFUSED`;
    assert.ok(stderr.startsWith(beginning), stderr);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  }
});
