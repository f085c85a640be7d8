import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test, type TestContext } from 'node:test';
import { loadStatements, nameOfSql } from './load-sql.ts';

function aModuleBeside(t: TestContext, sql: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'statements-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'rows.sql'), sql);
  return pathToFileURL(join(folder, 'module.ts')).href;
}

const twoStatements = `-- The rows.

-- name: findRow
-- $1 id.
SELECT 1;

-- name: dropRow
DELETE FROM rows;
`;

test('each statement of a file is found by its name, with its contract', (t) => {
  const sql = loadStatements(aModuleBeside(t, twoStatements), 'rows.sql', ['findRow', 'dropRow']);
  assert.equal(sql.findRow, '-- $1 id.\nSELECT 1;');
  assert.equal(sql.dropRow, 'DELETE FROM rows;');
  assert.equal(nameOfSql(sql.dropRow), 'drop-row');
});

test('a statement that is missing, and one that nobody asks for, are named', (t) => {
  const url = aModuleBeside(t, twoStatements);
  assert.throws(() => loadStatements(url, 'rows.sql', ['findRow', 'other']), /no .* named other/);
  assert.throws(() => loadStatements(url, 'rows.sql', ['findRow']), /nobody asks for dropRow/);
});
