import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { command } from './command.ts';
import { upSystem } from './system.ts';

before(upSystem);

test('every failure that can be run is absorbed, with two of each service', async () => {
  const { code, stdout, stderr } = await command('scenario', '--all');
  assert.equal(code, 0, stdout + stderr);
  for (const name of ['retry', 'two-at-once', 'worker-killed', 'dispatcher-killed']) {
    assert.match(stdout, new RegExp(`^.*${name}`, 'm'));
  }
});
