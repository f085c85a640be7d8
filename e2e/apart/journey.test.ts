import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

test('a payment runs through few files, in the order that docs/journey.md gives', async () => {
  const file = fileURLToPath(new URL('../journey.ts', import.meta.url));
  const problem = await new Promise<string | undefined>((resolve) => {
    execFile(process.execPath, [file], (error, stdout, stderr) =>
      resolve(error === null ? undefined : stdout + stderr),
    );
  });
  assert.equal(problem, undefined);
});
