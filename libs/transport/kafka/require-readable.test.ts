import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { requireReadable } from './require-readable.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function check(t: TestContext, compression: string): Promise<void> {
  const place = await createTestTopic(t, { compression });
  await requireReadable({ ...place, clientId: 'test', logger });
}

test('a topic whose batches can always be read is accepted', async (t) => {
  await check(t, 'uncompressed');
  await check(t, 'gzip');
});

test('a topic that lets in what cannot be read is refused, with what to do', async (t) => {
  for (const compression of ['producer', 'snappy', 'lz4', 'zstd']) {
    await assert.rejects(check(t, compression), (error: Error) => {
      assert.match(
        error.message,
        new RegExp(`^topic test\\.\\w+ has compression.type ${compression},`),
      );
      assert.match(error.message, /--add-config compression\.type=uncompressed$/);
      return true;
    });
  }
});

test('brokers that are away refuse nothing', async () => {
  const brokers = ['127.0.0.1:1'];
  await requireReadable({ brokers, topic: 'any', clientId: 'test', logger });
});
