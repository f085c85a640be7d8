import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import { anEvent, inboxConformance, type InboxUnderTest } from '../inbox.conformance.ts';
import { openInbox } from './open-inbox.ts';

async function openUnderTest(context: TestContext): Promise<InboxUnderTest> {
  const store = await createTestDatabase(context);
  const owner = store.open();
  await owner.query(`
    CREATE TABLE notifier.effects (
      n integer GENERATED ALWAYS AS IDENTITY, event_id uuid NOT NULL, sequence integer
    )`);
  await owner.query('GRANT SELECT, INSERT ON notifier.effects TO triplock_notifier');
  const database = store.open('triplock_notifier');
  return {
    inbox: openInbox(database, 'partner-notifier'),
    other: openInbox(database, 'another'),
    effect: async (tx, event) => {
      const row = [event.event_id, event.sequence ?? null];
      await tx.query('INSERT INTO effects (event_id, sequence) VALUES ($1, $2)', row);
    },
    effects: () => database.query('SELECT event_id AS "eventId", sequence FROM effects ORDER BY n'),
    reap: async (eventId) => {
      await owner.query('DELETE FROM notifier.inbox WHERE event_id = $1', [eventId]);
    },
  };
}

inboxConformance('inbox on PostgreSQL', openUnderTest);

test('a consumer cannot unmake what took effect', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  for (const statement of [
    'DELETE FROM inbox',
    'UPDATE inbox SET payload_hash = payload_hash',
    'DELETE FROM cursors',
    'DELETE FROM altered_copies',
    'DELETE FROM refused_messages',
  ]) {
    await assert.rejects(database.query(statement), /permission denied/, statement);
  }
});

test('an altered copy is kept once, with how often it came', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const event = anEvent().event;
  const nothing = () => Promise.resolve();
  for (const payloadHash of ['known', 'altered', 'altered', 'another']) {
    await inbox.receive({ event, payloadHash }, nothing);
  }
  const sql = 'SELECT payload_hash, known_hash, copies FROM altered_copies ORDER BY payload_hash';
  assert.deepEqual(await database.query(sql), [
    { payload_hash: 'altered', known_hash: 'known', copies: 2 },
    { payload_hash: 'another', known_hash: 'known', copies: 1 },
  ]);
});
