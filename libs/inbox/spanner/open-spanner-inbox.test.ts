import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  openCalls,
  spannerInboxMigrations,
  spannerOver,
  status,
  type SpannerTransaction,
} from '@triplock/spanner';
import { createTestSpanner, troubledCommits } from '@triplock/testing';
import { anEvent, inboxConformance, type InboxUnderTest } from '../inbox.conformance.ts';
import type { Effect } from '../inbox.ts';
import { makeEffects, readEffects, writeEffects } from './effects.testing.ts';
import { openSpannerInbox, spannerInboxHours } from './open-spanner-inbox.ts';
import { openSpannerRefusedMessages } from './open-spanner-refused-messages.ts';

async function openUnderTest(context: TestContext): Promise<InboxUnderTest<SpannerTransaction>> {
  const store = await createTestSpanner(context);
  const database = await store.open();
  await makeEffects(store, database);
  return {
    inbox: openSpannerInbox(database, 'partner-notifier'),
    other: openSpannerInbox(database, 'another'),
    effect: writeEffects,
    effects: () => readEffects(database),
    // As Spanner does to a row that is old enough; the emulator deletes none.
    reap: (eventId) =>
      database.transaction(async (tx) => {
        tx.write({ kind: 'delete', table: 'inbox', key: ['partner-notifier', eventId] });
      }),
  };
}

inboxConformance('inbox on Spanner', openUnderTest);

/** An inbox whose commits can be made to go wrong. */
async function openTroubled(context: TestContext) {
  const store = await createTestSpanner(context);
  const calls = await openCalls(store);
  const { commit, faults } = troubledCommits(calls);
  const database = spannerOver({ ...calls, commit });
  context.after(() => database.close());
  await makeEffects(store, database);
  const effects = async () => (await readEffects(database)).map(({ eventId }) => eventId);
  return { store, database, faults, effects, inbox: openSpannerInbox(database, 'a-consumer') };
}

test('what a commit without an answer did is known again, and not done twice', async (context) => {
  const { inbox, faults, effects } = await openTroubled(context);
  const [one, other] = [anEvent(), anEvent()];
  const altered = { event: one.event, payloadHash: 'other' };
  // It was not done: done now.
  faults.push('request lost');
  assert.deepEqual(await inbox.receive(one, writeEffects), { outcome: 'applied' });
  // The later attempts find what the first one did, and do none of it again.
  faults.push('answer lost', 'answer lost');
  assert.deepEqual(
    (await inbox.receiveMany([other, altered], writeEffects)).map(({ outcome }) => outcome),
    ['duplicate', 'altered'],
  );
  assert.deepEqual(
    (await effects()).sort(),
    [one, other].map(({ event }) => event.event_id).sort(),
  );
});

test('an effect runs again with its transaction, and is written once', async (context) => {
  const { inbox, faults, effects } = await openTroubled(context);
  let runs = 0;
  const counted: Effect<SpannerTransaction> = async (tx, events) => {
    runs += 1;
    await writeEffects(tx, events);
  };
  faults.push('aborted', 'aborted', 'aborted');
  assert.deepEqual(await inbox.receive(anEvent(), counted), { outcome: 'applied' });
  assert.deepEqual([runs, (await effects()).length], [4, 1]);
});

test('what an effect reads and cannot write is told apart from its mistakes', async (context) => {
  const { inbox, effects } = await openTroubled(context);
  const [good, bad] = [anEvent(), anEvent()];
  const choosy: Effect<SpannerTransaction> = async (tx, events) => {
    await writeEffects(tx, events);
    const isBad = events.some(({ event_id }) => event_id === bad.event.event_id);
    await tx.query('SELECT 1 / @by', { by: isBad ? 0 : 1 });
  };
  const outcomes = await inbox.receiveMany([good, bad], choosy);
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ['applied', 'unstorable'],
  );
  assert.deepEqual(await effects(), [good.event.event_id]);
  const mistaken: Effect<SpannerTransaction> = async (tx) => void (await tx.query('SELEC 1'));
  await assert.rejects(inbox.receive(bad, mistaken), { code: status.invalidArgument });
  assert.deepEqual(await inbox.receive(bad, writeEffects), { outcome: 'applied' });
});

test('a consumer that dies in its effect, or before it acknowledged, does it once', async (context) => {
  const { store, inbox, effects } = await openTroubled(context);
  const [done, begun] = [anEvent(), anEvent()];
  const child = spawn(
    process.execPath,
    [
      fileURLToPath(new URL('die-while-receiving.testing.ts', import.meta.url)),
      JSON.stringify({ store, done, begun }),
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL');
  assert.deepEqual(await effects(), [done.event.event_id]);
  assert.deepEqual(
    [await inbox.receive(done, writeEffects), await inbox.receive(begun, writeEffects)],
    [{ outcome: 'duplicate' }, { outcome: 'applied' }],
  );
  assert.equal((await effects()).length, 2);
});

test('an altered copy is kept once, with how often it came', async (context) => {
  const { inbox, database } = await openTroubled(context);
  const { event } = anEvent();
  for (const payloadHash of ['known', 'altered', 'altered', 'another']) {
    await inbox.receive({ event, payloadHash }, writeEffects);
  }
  const sql =
    'SELECT payload_hash, known_hash, copies FROM inbox_altered_copies ORDER BY payload_hash';
  assert.deepEqual(await database.query(sql), [
    { payload_hash: 'altered', known_hash: 'known', copies: 2n },
    { payload_hash: 'another', known_hash: 'known', copies: 1n },
  ]);
});

test('Spanner may forget events with a sequence, for as long as is said, and no others', async (context) => {
  const { inbox, database } = await openTroubled(context);
  const [ordered, conflict] = [anEvent(), anEvent({ sequence: undefined })];
  await inbox.receiveMany([ordered, conflict], writeEffects);
  const kept = await database.query<{ event_id: string }>(
    'SELECT event_id FROM inbox WHERE forgotten_from IS NULL AND received_at IS NOT NULL',
  );
  assert.deepEqual(kept, [{ event_id: conflict.event.event_id }]);
  const ddl = await readFile(new URL('0001-inbox.sql', spannerInboxMigrations.folder), 'utf8');
  const days = /OLDER_THAN\(forgotten_from, INTERVAL (\d+) DAY\)/.exec(ddl)?.[1];
  assert.equal(Number(days) * 24, spannerInboxHours);
});

test('a refused message is kept once, with the bytes as they came', async (context) => {
  const { database } = await openTroubled(context);
  const refused = openSpannerRefusedMessages(database, 'a-consumer');
  const message = { id: '17', data: Buffer.from([0, 255, 10]), attributes: { a: '1\0"' } };
  const refusal = { reason: 'not_json', detail: 'unexpected \0 and \ud800 at 0' };
  assert.equal(await refused.record(message, refusal), 'recorded');
  assert.equal(await refused.record(message, refusal), 'known');
  assert.equal(
    await openSpannerRefusedMessages(database, 'b').record(message, refusal),
    'recorded',
  );
  const rows = await database.query(`
    SELECT message_id, reason, detail, data, attributes
    FROM inbox_refused_messages WHERE consumer = 'a-consumer'`);
  const { id: message_id, data, attributes } = message;
  assert.deepEqual(rows, [
    {
      ...{ message_id, reason: refusal.reason, detail: 'unexpected \0 and \ufffd at 0' },
      ...{ data: data.toString('base64'), attributes: JSON.stringify(attributes) },
    },
  ]);
});
