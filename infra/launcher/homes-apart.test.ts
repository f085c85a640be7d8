import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { aHome, processesOf } from './a-home.ts';
import { homesApart, homeWithout } from './homes-apart.ts';
import { takeDown } from './take-down.ts';

test('down ends what lived beside a home too, and leaves other homes below it alone', async (t) => {
  const home = aHome(t);
  const apart = homeWithout(home, 'claims');
  const other = join(home, 'e2e');
  for (const folder of [apart, other]) mkdirSync(folder, { recursive: true });
  const env = { ...process.env, TRIPLOCK_HOME: realpathSync(apart) };
  const stray = spawn('sleep', ['300'], { env, stdio: 'ignore' });
  const ended = once(stray, 'exit');
  t.after(() => stray.kill());
  assert.deepEqual(homesApart(home), [apart]);

  await takeDown({ home });
  await ended;
  assert.deepEqual(processesOf(apart), []);
  assert.deepEqual([existsSync(apart), existsSync(other)], [false, true]);
});
