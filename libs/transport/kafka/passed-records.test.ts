import assert from 'node:assert/strict';
import { createLogger } from '@triplock/runtime';
import {
  commitTestOffset,
  createTestTopic,
  emptyTestTopic,
  patientAppends,
  testNamespace,
} from '@triplock/testing';
import { testEveryDriver as test, type DriverTest } from '../test/topic.ts';
import { openGroupCommit } from './group-commit.ts';
import { openPassedRecords } from './passed-records.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** Records 0 to 4 of one partition, of which a group has passed three. */
async function aPassedTopic(t: DriverTest) {
  const topic = await createTestTopic(t);
  const connection = { ...topic, clientId: 'test', logger, driver: t.driver };
  const log = openGroupCommit({ ...connection, limits: patientAppends });
  t.after(() => log.close());
  for (let n = 0; n < 5; n += 1) {
    const headers = { traceparent: '', partner_id: 'acme' };
    await log.append({ key: 'key', value: Buffer.from(String(n)), headers });
  }
  const groupId = testNamespace('group');
  await commitTestOffset(topic, { groupId, offset: 3 });
  const passed = openPassedRecords({ ...connection, groupId });
  t.after(() => passed.close());
  /** What is read from offsets on, as one text, and up to where. */
  const readBy = (how: 'readPassed' | 'readAgain') => async (from: ReadonlyMap<number, bigint>) => {
    const seen: string[] = [];
    const until = await passed[how](from, async (records) => {
      seen.push(...records.map(({ value }) => String(value)));
    });
    return [seen.join(''), until.get(0)];
  };
  const [before, again] = [readBy('readPassed'), readBy('readAgain')];
  return { topic, passed, before, again };
}

test('what a group has passed since an offset is read again, and what its members may have in hand', async (t) => {
  const { passed, before, again } = await aPassedTopic(t);
  assert.deepEqual(await before(new Map([[0, 1n]])), ['12', 3n]);
  assert.deepEqual(await again(new Map([[0, 1n]])), ['1234', 5n]);
  assert.deepEqual(await before(new Map([[0, 4n]])), ['', 4n]);
  assert.deepEqual(await again(new Map([[0, 4n]])), ['4', 5n]);
  assert.deepEqual(await again(new Map([[0, 5n]])), ['', 5n]);
  // The group itself is where it was.
  assert.deepEqual(await passed.passed(), new Map([[0, 3n]]));
});

test('from offsets that are not in the log all that is there is read', async (t) => {
  const { topic, before, again } = await aPassedTopic(t);
  // Without one, and with one as of a topic of this name that is no more.
  for (const from of [new Map(), new Map([[0, 9n]])]) {
    assert.deepEqual(await before(from), ['012', 3n]);
    assert.deepEqual(await again(from), ['01234', 5n]);
  }
  await emptyTestTopic(topic);
  assert.deepEqual(await again(new Map([[0, 1n]])), ['', 5n]);
});
