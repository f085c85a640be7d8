import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { systemStatus } from '@triplock/launcher';
import { home, interruptAt, upSystem } from './test/system.ts';

before(upSystem);

for (const { scenario, broken, mended } of [
  { scenario: 'worker-killed', broken: /killed itself/, mended: /is back/ },
  { scenario: 'redelivered-out-of-order', broken: /stand still/, mended: /go on/ },
]) {
  test(`Ctrl-C during ${scenario} leaves every process running`, async () => {
    const { code, output } = await interruptAt(broken, ['scenario', scenario]);
    assert.equal(code, 130, output);
    assert.doesNotMatch(output, mended, 'it was interrupted while something was broken');
    const { processes } = await systemStatus({ home });
    const wrong = processes.filter(({ state }) => state !== 'ready');
    assert.deepEqual(wrong, []);
  });
}
