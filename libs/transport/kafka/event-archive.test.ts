import assert from 'node:assert/strict';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually } from '@triplock/testing';
import { testEveryDriver as test, type DriverTest } from '../test/topic.ts';
import { openEventArchive, readEventArchive } from './event-archive.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function anArchive(t: DriverTest) {
  const topic = await createTestTopic(t);
  const connection = { ...topic, clientId: 'test', logger, driver: t.driver };
  const archive = openEventArchive(connection);
  t.after(() => archive.close());
  const since = async (time: Date) => {
    const texts: string[] = [];
    await readEventArchive({ ...connection, since: time }, async (some) => {
      texts.push(...some.map(String));
    });
    return texts;
  };
  return { archive, since };
}

test('what was archived comes back byte for byte and in order, however much it is', async (t) => {
  const { archive, since } = await anArchive(t);
  assert.deepEqual(await since(new Date(0)), []);
  // More than goes into a record, and characters of one to four bytes.
  const texts = Array.from({ length: 1_000 }, (_, n) =>
    JSON.stringify({ n, said: 'aß€😀\n'.repeat(n % 70) }),
  );
  await archive.append(texts.slice(0, 1));
  await archive.append(texts.slice(1));
  await archive.append([]);
  assert.deepEqual(await since(new Date(0)), texts);
});

test('what was archived before a time need not be read', async (t) => {
  const { archive, since } = await anArchive(t);
  await archive.append(['{"early":1}']);
  // By the broker's clock, which is this one's and counts milliseconds.
  const early = Date.now();
  const time = await eventually(async () => Date.now() > early + 1 && new Date());
  await archive.append(['{"late":1}', '{"late":2}']);
  assert.deepEqual(await since(time), ['{"late":1}', '{"late":2}']);
});
