import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Provider, Unknown } from '@triplock/provider';
import { createMetrics } from '@triplock/runtime';
import { measureProvider } from './measure-provider.ts';
import { workerMetrics } from './metrics.ts';

test('each call of the provider is timed by what is known of it, and passed on as it is', async () => {
  const metrics = workerMetrics(createMetrics('test'));
  const unknown: Unknown = { outcome: 'unknown', error: 'timed out', kept: false, sent: true };
  const provider = {
    readIntent: async () => ({ outcome: 'succeeded', chargeId: 'ch_1' }) as const,
    confirmIntent: async () => unknown,
    refund: () => Promise.reject(new Error('a bug')),
  } as unknown as Provider;
  const measured = measureProvider(provider, metrics);
  const counts = async () => {
    const { values } = await metrics.calls.get();
    return values
      .filter(({ metricName }) => metricName?.endsWith('_count'))
      .map(({ labels, value }) => `${labels.call} ${labels.outcome} ${value}`);
  };
  const before = await counts();
  assert.equal(before.length, 12);
  assert.ok(before.every((line) => line.endsWith(' 0')));

  const asked = {} as never;
  assert.deepEqual(await measured.readIntent(asked), { outcome: 'succeeded', chargeId: 'ch_1' });
  assert.equal(await measured.confirmIntent(asked), unknown);
  await assert.rejects(measured.refund(asked), /a bug/);
  const grown = (await counts()).filter((line) => !line.endsWith(' 0'));
  assert.deepEqual(grown.sort(), [
    'confirm-intent unknown 1',
    'read-intent answered 1',
    'refund unknown 1',
  ]);
});
