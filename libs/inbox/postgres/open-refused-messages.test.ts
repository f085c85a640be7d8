import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import { openRefusedMessages } from './open-refused-messages.ts';

test('a refused message is kept once, with the bytes as they came', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const refused = openRefusedMessages(database, 'auditor');
  const message = { id: '17', data: Buffer.from([0, 255, 10]), attributes: { a: '1\0"' } };
  const refusal = { reason: 'not_json', detail: 'unexpected \0 at 0' };
  assert.equal(await refused.record(message, refusal), 'recorded');
  assert.equal(await refused.record(message, refusal), 'known');
  const rows = await database.query(
    'SELECT reason, detail, data, attributes FROM refused_messages',
  );
  assert.deepEqual(rows, [
    {
      reason: 'not_json',
      detail: 'unexpected \\0 at 0',
      data: message.data,
      attributes: message.attributes,
    },
  ]);
});
