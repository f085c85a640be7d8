import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import {
  bringUpParts,
  continueProcess,
  pauseProcess,
  takeDown,
  UsageError,
} from '@triplock/launcher';
import { testEndpoints } from '@triplock/testing';
import { withParts } from './needed-parts.ts';

before(async () => {
  const { kafka, pubsub } = await testEndpoints();
  Object.assign(process.env, { KAFKA_BROKERS: kafka, PUBSUB_EMULATOR_HOST: pubsub });
});

async function aHome(t: TestContext): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), 'triplock-parts-'));
  t.after(async () => {
    await takeDown({ home, data: 'forget' });
    rmSync(home, { recursive: true });
  });
  await bringUpParts({ home });
  return home;
}

test('work without a part that it needs is not begun, or blames the part that went away', async (t) => {
  const home = await aHome(t);
  const system = { home, signal: new AbortController().signal };
  const needed = ['redis', 'postgres'] as const;
  assert.equal(await withParts(system, needed, async () => 'done'), 'done');

  const broken = new Error('Command timed out');
  const lostMidway = withParts(system, needed, async () => {
    await pauseProcess({ home, name: 'redis' });
    throw broken;
  });
  await assert.rejects(lostMidway, (error: Error) => {
    assert.ok(error instanceof UsageError);
    assert.match(error.message, /^redis stands still: `npm run up -- --home .+` lets it go on$/);
    return error.cause === broken;
  });

  let begun = false;
  const begin = async () => (begun = true);
  await assert.rejects(withParts(system, needed, begin), /redis stands still/);
  assert.equal(begun, false);
  assert.equal(await withParts(system, ['postgres'], begin), true);

  await continueProcess({ home, name: 'redis' });
  const own = withParts(system, needed, () => Promise.reject(broken));
  await assert.rejects(own, broken);
});
