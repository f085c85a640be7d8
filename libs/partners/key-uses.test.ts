import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PartnerId } from '@triplock/payments';
import { openDatabase } from '@triplock/postgres';
import { createTestDatabase, createTestRelay } from '@triplock/testing';
import { openPartnerRegistry } from './partner-registry.ts';
import { openPartners } from './partners.ts';

test('a use that cannot be written down stops nobody, and is written down later', async (t) => {
  const store = await createTestDatabase(t);
  const relay = await createTestRelay(t, store.url('triplock_gateway'));
  const database = openDatabase({
    url: relay.url,
    applicationName: 'test',
    connectTimeoutMs: 1_000,
    statementTimeoutMs: 1_000,
    onIdleError: () => undefined,
  });
  t.after(() => database.close());
  let nowMs = 0;
  const partners = openPartners(database, { clock: () => nowMs });
  const registry = openPartnerRegistry(store.open('triplock_partners'));
  const made = await registry.add('acme' as PartnerId, { by: 'ada', why: null });
  assert.ok(made.outcome === 'added');
  await partners.authenticate(made.apiKey);
  await relay.cut();
  await assert.rejects(partners.storeKeyUses());
  nowMs = 5_000;
  assert.equal((await partners.authenticate(made.apiKey)).outcome, 'authenticated');
  await relay.restore();
  nowMs = 65_000;
  assert.equal(await partners.storeKeyUses(), 0);
  const [row] = await store.open().query<{ ago: number }>(
    `SELECT extract(epoch FROM now() - last_used_at)::double precision AS ago
     FROM partners.api_keys`,
  );
  // As of the use that the cache let in, a minute before.
  assert.ok(Math.abs(row!.ago - 60) < 10, `${row!.ago} s`);
});
