import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert/strict';
import { createTestSpanner } from '../test/test-spanner.ts';
import { migrateSpanner, OtherSchemaError, spannerMigrationSets } from './schema.ts';

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
  await assert.rejects(migrateSpanner(store, [set]), OtherSchemaError);
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
