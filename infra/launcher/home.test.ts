import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWithout, separateHomes } from './home.ts';
import { takeDown } from './take-down.ts';
import { processesOf, testHome } from './test/home.ts';

test('down ends what lived beside a home too, and leaves other homes below it alone', async (t) => {
  const home = testHome(t);
  const separate = homeWithout(home, 'claims');
  const other = join(home, 'e2e');
  for (const folder of [separate, other]) mkdirSync(folder, { recursive: true });
  const env = { ...process.env, TRIPLOCK_HOME: realpathSync(separate) };
  const stray = spawn('sleep', ['300'], { env, stdio: 'ignore' });
  const ended = once(stray, 'exit');
  t.after(() => stray.kill());
  assert.deepEqual(separateHomes(home), [separate]);

  await takeDown({ home });
  await ended;
  assert.deepEqual(processesOf(separate), []);
  assert.deepEqual([existsSync(separate), existsSync(other)], [false, true]);
});
