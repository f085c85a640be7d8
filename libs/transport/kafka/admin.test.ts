import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import kafkajs from 'kafkajs';
import { openInquiry } from './admin.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openTestInquiry(t: TestContext) {
  const connection = await createTestTopic(t);
  const inquiry = openInquiry({ ...connection, clientId: 'test', logger });
  t.after(() => inquiry.close());
  return { inquiry, topic: connection.topic };
}

/** What kafkajs throws for the error code of a broker's answer. */
function refusal(message: string, code: number, retriable: boolean): Error {
  return new kafkajs.KafkaJSProtocolError(Object.assign(new Error(message), { code, retriable }));
}
const coordinatorMoved = refusal('This is not the correct coordinator for this group', 16, true);
const forbidden = refusal('Not authorized to access group', 30, false);

test('a broker that cannot answer yet is asked again', async (t) => {
  const { inquiry, topic } = await openTestInquiry(t);
  let refusals = 0;
  const answer = await inquiry.ask(async (admin) => {
    if (refusals < 2) {
      refusals += 1;
      throw coordinatorMoved;
    }
    return admin.fetchTopicOffsets(topic);
  });
  assert.equal(refusals, 2);
  assert.equal(answer[0]?.high, '0');
});

test('a broker that never can answer is its own error before the time is over', async (t) => {
  const { inquiry, topic } = await openTestInquiry(t);
  const never = inquiry.ask(() => Promise.reject(coordinatorMoved));
  await assert.rejects(never, coordinatorMoved);
  await inquiry.ping(topic);
});

test('what a broker refuses for good is asked once', async (t) => {
  const { inquiry } = await openTestInquiry(t);
  let asked = 0;
  const refused = inquiry.ask(() => {
    asked += 1;
    return Promise.reject(forbidden);
  });
  await assert.rejects(refused, forbidden);
  assert.equal(asked, 1);
});
