import assert from 'node:assert/strict';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, emptyTestTopic, eventually, recreateTestTopic } from '@triplock/testing';
import { testEveryDriver as test, type DriverTest } from '../test/topic.ts';
import { openEventArchive, openEventArchiveReader, readEventArchive } from './event-archive.ts';

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
  const reader = openEventArchiveReader(connection);
  const from = async (offset: bigint) => {
    const texts: string[] = [];
    const read = await reader.readFrom(new Map([[0, offset]]), async (some) => {
      texts.push(...some.map(String));
    });
    return { texts, ...read };
  };
  return { topic, archive, since, reader, from };
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

test('what was archived from an offset on is read up to an end, and what is there no more is counted', async (t) => {
  const { topic, archive, reader, from } = await anArchive(t);
  const end = (offset: bigint) => new Map([[0, offset]]);
  assert.deepEqual(await from(0n), { texts: [], gone: 0n, end: end(0n) });
  for (const text of ['{"one":1}', '{"two":2}', '{"three":3}']) await archive.append([text]);
  assert.deepEqual(await reader.end(), end(3n));
  const later = ['{"two":2}', '{"three":3}'];
  assert.deepEqual(await from(1n), { texts: later, gone: 0n, end: end(3n) });
  await emptyTestTopic(topic);
  assert.deepEqual(await from(1n), { texts: [], gone: 2n, end: end(3n) });
  // One that was made anew: whatever it has is later than what was noted.
  await recreateTestTopic(topic);
  await archive.append(['{"four":4}']);
  assert.deepEqual(await from(3n), { texts: ['{"four":4}'], gone: 0n, end: end(1n) });
});
