import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { systemStatus } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { command, home, interruptAt, upSystem } from './test/system.ts';

before(() => upSystem());

test('status shows where people and programs find the system, what keeps what, and whether claims are warm', async () => {
  const { gateway, console } = await upSystem();
  // A process that is busy is not ready to whoever asks it once.
  const stdout = await eventually(async () => {
    const status = await command('status');
    if (status.code !== 0) throw new Error(status.stdout);
    return status.stdout;
  });
  const facts = Object.fromEntries(
    [...stdout.matchAll(/^([a-z]+) {2,}(\S.*)$/gm)].map(([, name, fact]) => [name, fact!]),
  );
  assert.equal(facts['docs'], `${gateway}/docs`);
  assert.equal(facts['console'], `${console}/`);
  assert.match(facts['mode'], /^demo, (native: processes|docker: containers)$/);
  assert.match(facts['claims'], /^in (redis|postgres|hybrid|dynamodb), (warm|cold: .+)$/);
  assert.match(facts['ledger'], /^in (postgres|spanner)$/);
  const { stdout: json } = await command('status', '--json');
  const { claimState, claimsLeft } = JSON.parse(json) as Record<string, string | null>;
  assert.match(facts['claims'], new RegExp(`, ${claimState}(: |$)`));
  assert.equal(claimsLeft === null, claimState === 'warm');
});

for (const { scenario, broken, mended } of [
  { scenario: 'worker-killed', broken: /killed itself/, mended: /is back/ },
  { scenario: 'redelivered-out-of-order', broken: /stand still/, mended: /go on/ },
]) {
  test(`Ctrl-C during ${scenario} leaves every process running`, async () => {
    const { code, output } = await interruptAt(broken, ['scenario', scenario]);
    assert.equal(code, 130, output);
    assert.doesNotMatch(output, mended, 'it was interrupted while something was broken');
    const { processes } = await systemStatus({ home, withinMs: 60_000 });
    const wrong = processes.filter(({ state }) => state !== 'ready');
    assert.deepEqual(wrong, []);
  });
}

test('a demo of a system that was up before leaves it up, whole, when it is ended', async () => {
  const { processes: before } = await systemStatus({ home, withinMs: 60_000 });
  const { code, output } = await interruptAt(/guard 1 claims/, ['demo']);
  assert.equal(code, 130, output);
  assert.match(output, /it was up before and stays up; npm run down -- --home .* stops it/);
  const { processes } = await systemStatus({ home, withinMs: 60_000 });
  assert.deepEqual(processes, before);
});
