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
  const again = async (from: ReadonlyMap<number, bigint>) => {
    const seen = { passed: '', inHand: '' };
    const until = await passed.readAgain(from, async (records, isPassed) => {
      for (const record of records) {
        seen[isPassed(record) ? 'passed' : 'inHand'] += String(record.value);
      }
    });
    return { ...seen, until: until.get(0) };
  };
  return { topic, passed, again };
}

test('what a group has passed since an offset is read again, and what its members may have in hand', async (t) => {
  const { passed, again } = await aPassedTopic(t);
  assert.deepEqual(await again(new Map([[0, 1n]])), { passed: '12', inHand: '34', until: 5n });
  assert.deepEqual(await again(new Map([[0, 4n]])), { passed: '', inHand: '4', until: 5n });
  assert.deepEqual(await again(new Map([[0, 5n]])), { passed: '', inHand: '', until: 5n });
  // The group itself is where it was.
  assert.deepEqual(await passed.passed(), new Map([[0, 3n]]));
});

test('from offsets that are not in the log all that is there is read', async (t) => {
  const { topic, again } = await aPassedTopic(t);
  const all = { passed: '012', inHand: '34', until: 5n };
  assert.deepEqual(await again(new Map()), all);
  // As of a topic of this name that is no more.
  assert.deepEqual(await again(new Map([[0, 9n]])), all);
  await emptyTestTopic(topic);
  assert.deepEqual(await again(new Map([[0, 1n]])), { passed: '', inHand: '', until: 5n });
});
