import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createClaimsTable } from '@triplock/claims-dynamodb';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace, createTestTable } from '@triplock/testing';
import {
  once,
  openDynamoOnce,
  openHybridOnce,
  openPostgresOnce,
  openRedisOnce,
  type OnceStore,
} from './index.ts';
import { database } from './test/once-database.ts';

const logger = createLogger({ service: 'example', instance: 'example', level: 'silent' });

/** Opens each store, as a service would in its main.ts. */
const stores: Record<string, (t: TestContext) => Promise<OnceStore>> = {
  postgres: async () => openPostgresOnce(database),
  async redis(t) {
    const { url, namespace } = await createTestKeyspace(t);
    return closing(t, await openRedisOnce({ url, namespace, logger }));
  },
  async hybrid(t) {
    const { url: cacheUrl, namespace } = await createTestKeyspace(t);
    return closing(t, openHybridOnce({ database, cacheUrl, namespace, logger }));
  },
  async dynamodb(t) {
    const address = await createTestTable(t, createClaimsTable);
    return closing(t, await openDynamoOnce({ ...address, namespace: 'example', logger }));
  },
};

for (const [name, open] of Object.entries(stores)) {
  test(`a mail is sent once per order, remembered in ${name}`, async (t) => {
    const store = await open(t);
    const sent: string[] = [];
    const confirm = (orderId: string) => {
      const times = { leaseMs: 30_000, keepMs: 86_400_000 };
      const step = { scope: `mail-${name}`, key: orderId, fingerprint: orderId, ...times };
      return once(store, step, async ({ signal }) => {
        signal.throwIfAborted();
        sent.push(orderId);
        return { sentAs: sent.length };
      });
    };
    assert.deepEqual(await confirm('order-1'), { outcome: 'done', result: { sentAs: 1 } });
    assert.deepEqual(await confirm('order-1'), { outcome: 'replayed', result: { sentAs: 1 } });
    assert.deepEqual(sent, ['order-1']);
  });
}

function closing<Store extends { close(): Promise<void> }>(t: TestContext, store: Store): Store {
  t.after(() => store.close());
  return store;
}
