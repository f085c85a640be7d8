import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastLines } from './logs.ts';

test('as many last lines as are wanted, all of them whole, however long they are', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'a.log');
  const written = Array.from({ length: 3_000 }, (_, n) => `${n} ${'é'.repeat(100)}`);
  writeFileSync(file, `${written.join('\n')}\n`);
  for (const lines of [1, 20, 2_999, 3_000, 9_999]) {
    assert.deepEqual(lastLines(file, { lines }), written.slice(-lines));
  }
  const from = Buffer.byteLength(`${written.slice(0, 2_990).join('\n')}\n`);
  assert.deepEqual(lastLines(file, { lines: 20, from }), written.slice(2_990));
  assert.deepEqual(lastLines(join(folder, 'none.log'), { lines: 1 }), []);
});
