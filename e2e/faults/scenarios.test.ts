import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { command, upSystem } from '../test/system.ts';

before(upSystem);

test('every failure that can be run is absorbed, or seen where nothing can, with two of each service', async () => {
  const { code, stdout, stderr } = await command('scenario', '--all');
  assert.equal(code, 0, stdout + stderr);
  const listed = await command('scenario', '--list', '--json');
  const scenarios = JSON.parse(listed.stdout) as { name: string }[];
  assert.ok(scenarios.length >= 10);
  for (const { name } of scenarios) assert.match(stdout, new RegExp(`^${name} · .*$`, 'm'));
  assert.match(stdout, new RegExp(`^${scenarios.length} of ${scenarios.length} held, in `, 'm'));
});
