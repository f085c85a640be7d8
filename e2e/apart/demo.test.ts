import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { systemStatus, takeDown } from '@triplock/launcher';
import { home, interruptAt } from '../test/system.ts';

test('a demo stops the system that it started', async (t) => {
  const own = mkdtempSync(join(dirname(home), 'demo-'));
  t.after(async () => {
    await takeDown({ home: own, data: 'forget' });
    rmSync(own, { recursive: true, force: true });
  });
  const { code, output } = await interruptAt(/guard 1 claims/, ['demo', '--parts', 'native'], {
    of: own,
  });
  assert.equal(code, 130, output);
  assert.match(output, /everything is stopped/);
  const { processes } = await systemStatus({ home: own });
  assert.deepEqual(
    processes.filter(({ state }) => state !== 'gone'),
    [],
  );
});
