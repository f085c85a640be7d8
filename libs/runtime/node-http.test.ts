import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

const services = globSync('services/**/main.ts', { cwd: join(import.meta.dirname, '../..') })
  .map((path) => join(import.meta.dirname, '../..', path))
  .filter((path) => existsSync(join(dirname(path), 'service.ts')));

/** Tells, as a process ends, whether `fetch` was loaded. */
const tell = `process.on('exit', () => console.log(
  'fetch ' + process.moduleLoadList.some((name) => name.includes('undici'))));`;

test('no service loads fetch, which none of them uses, by what it imports', async () => {
  assert.ok(services.length >= 6, services.join());
  // Node tells the folder of its own version in the one that it was given.
  const compiled = getCompileCacheDir();
  for (const main of services) {
    // It ends for want of settings, and by then has loaded all that it imports.
    const child = spawn(
      process.execPath,
      ['--import', `data:text/javascript,${encodeURIComponent(tell)}`, main],
      {
        env: { NODE_COMPILE_CACHE: compiled && dirname(compiled) },
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    assert.match(await text(child.stdout), /^fetch false$/m, main);
  }
});
