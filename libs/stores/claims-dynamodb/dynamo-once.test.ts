import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { describeOnce } from '@triplock/once/conformance';
import { answerTimeoutMs, aStep } from '@triplock/once/test';
import { createLogger } from '@triplock/runtime';
import { createTestRelay, testNamespace } from '@triplock/testing';
import { effectId, openDynamoOnce } from './dynamo-once.ts';
import { createTestTable } from './test/test-table.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

// One table for the whole suite: every test has a namespace of its own.
const address = await createTestTable({ after });

async function openDynamo(t: TestContext) {
  const namespace = testNamespace('once');
  const relay = await createTestRelay(t, address.emulator);
  const here = { ...address, logger, namespace, answerTimeoutMs };
  const open = async (emulator: string) => {
    const store = await openDynamoOnce({ ...here, emulator });
    t.after(() => store.close());
    return store;
  };
  return {
    store: await open(relay.url),
    another: () => open(address.emulator),
    age: (step: { scope: string; key: string }, ms: number) =>
      address.addTo(effectId(namespace, step), { lease_until: -ms, expires_at: -ms }),
    relay,
  };
}

describeOnce('dynamodb', openDynamo);

test('a start whose answer was lost is sent again and known as its own', async (t) => {
  const { store, relay } = await openDynamo(t);
  const step = aStep();
  // The first answer is that of the look, the second one that of the write.
  const { lost } = relay.loseReply({ after: 1 });
  assert.equal((await store.start(step)).outcome, 'started');
  await lost;
  assert.equal((await store.start(step)).outcome, 'in-flight');
});
