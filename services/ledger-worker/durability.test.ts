import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PostgresDurabilityError } from '@triplock/postgres';
import { createLogger, createMetrics, type Mode } from '@triplock/runtime';
import { durabilityPass, requireDurableLedger, type StandbyPolicy } from './durability.ts';
import { workerMetrics } from './metrics.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A watch on a ledger with so many standbys that no commit waits for. */
function aWatch(standbys: () => number | Error) {
  const metrics = workerMetrics(createMetrics('test'));
  const readDurability = async () => {
    const now = standbys();
    if (now instanceof Error) throw now;
    return { asynchronousStandbys: now };
  };
  const boot = (mode: Mode, policy: StandbyPolicy) =>
    requireDurableLedger({ readDurability, metrics, logger }, { mode, standbys: policy });
  const alarm = async () => (await metrics.asynchronousStandbys.get()).values[0]?.value;
  return { boot, look: durabilityPass({ readDurability, metrics, logger }), alarm };
}

test('production does not start on a ledger whose failover may lose payments, unless a setting accepts it', async () => {
  const { boot } = aWatch(() => 1);
  await assert.rejects(
    boot('production', 'refused'),
    /synchronous_standby_names, or ASYNCHRONOUS_STANDBYS=accepted/,
  );
  await boot('production', 'accepted');
  await boot('demo', 'refused');
  await aWatch(() => 0).boot('production', 'refused');
});

test('a ledger that is away does not end the boot, one that loses commits does in every mode', async () => {
  await aWatch(() => new Error('away')).boot('production', 'refused');
  const { boot } = aWatch(() => new PostgresDurabilityError('fsync', 'triplock_ledger'));
  await assert.rejects(boot('test', 'accepted'), PostgresDurabilityError);
});

test('a standby that is attached later, or leaves, is counted and stops nothing', async () => {
  let standbys = 0;
  const { look, alarm } = aWatch(() => standbys);
  for (standbys of [0, 2, 2, 0]) {
    assert.equal(await look(), 0);
    assert.equal(await alarm(), standbys);
  }
});
