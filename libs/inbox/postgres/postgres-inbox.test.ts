import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Queryable } from '@triplock/postgres';
import { createTestDatabase, testLostAnswers } from '@triplock/testing';
import {
  anEvent,
  eventsOf,
  hashOf,
  inboxConformance,
  receiveOne,
  type InboxUnderTest,
} from '../inbox.conformance.ts';
import type { Effect, ReceivedEvent } from '../inbox.ts';
import { openInbox, openRefusedMessages } from './postgres-inbox.ts';

/** Only `inbox` goes by the relay. */
async function openUnderTest(context: TestContext) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  await owner.query(`
    CREATE TABLE notifier.effects (
      n integer GENERATED ALWAYS AS IDENTITY, event_id uuid NOT NULL, sequence integer
    )`);
  await owner.query('GRANT SELECT, INSERT ON notifier.effects TO triplock_notifier');
  const database = store.open('triplock_notifier');
  const { database: byRelay, relay } = await store.openByRelay('triplock_notifier');
  return {
    owner,
    relay,
    byRelay,
    inbox: openInbox(byRelay, 'partner-notifier'),
    before: openInbox(database, 'partner-notifier'),
    other: openInbox(database, 'another'),
    effect: async (tx: Queryable, events: readonly ReceivedEvent[]) => {
      for (const event of events) {
        const row = [event.id, event.sequence ?? null];
        await tx.query('INSERT INTO effects (event_id, sequence) VALUES ($1, $2)', row);
      }
    },
    effects: () =>
      database.query<{ eventId: string; sequence: number | null }>(
        'SELECT event_id AS "eventId", sequence FROM effects ORDER BY n',
      ),
    reap: async (eventId: string) => {
      await owner.query('DELETE FROM notifier.inbox WHERE event_id = $1', [eventId]);
    },
  } satisfies InboxUnderTest<Queryable> & Record<string, unknown>;
}

inboxConformance('inbox on PostgreSQL', openUnderTest);

type ByRelay = Awaited<ReturnType<typeof openUnderTest>>;

const { orderingKey } = anEvent();
const [first, second, third] = [1, 2, 3].map((sequence) => anEvent({ orderingKey, sequence }));
const altered = { ...first!, payloadHash: 'of other bytes' };

const receiving = (events: readonly ReceivedEvent[], known: readonly ReceivedEvent[] = []) => ({
  prepare: async ({ inbox, before, effect, effects }: ByRelay) => {
    await before.receive(known, effect);
    const operation = async () =>
      (await inbox.receive(events, effect)).map(({ outcome }) => outcome);
    return { operation, stored: effects };
  },
});

testLostAnswers<ByRelay>(
  {
    'receiving events of several payments': {
      ...receiving([first!, anEvent(), anEvent({ sequence: undefined })]),
      orElse: [['duplicate', 'duplicate', 'duplicate']],
    },
    'receiving two events of a payment': {
      ...receiving([first!, second!]),
      orElse: [
        ['duplicate', 'applied'],
        ['duplicate', 'duplicate'],
      ],
    },
    'receiving what is known, altered and early': receiving([first!, altered, third!], [first!]),
    'removing old inbox rows': {
      prepare: async ({ inbox, before, effect, owner }) => {
        await before.receive([first!], effect);
        await owner.query(`UPDATE notifier.inbox SET received_at = now() - interval '31 days'`);
        return {
          operation: () => inbox.reap({ keepMs: 30 * 86_400_000, rowsMax: 10 }),
          stored: () => owner.query('SELECT FROM notifier.inbox'),
        };
      },
      orElse: [0],
    },
    'recording a refused message': {
      prepare: async ({ byRelay, owner }) => {
        const message = { id: '17', data: Buffer.from([0, 255]), attributes: {} };
        const refused = openRefusedMessages(byRelay, 'partner-notifier');
        return {
          operation: () => refused.record(message, { reason: 'not_json', detail: 'unexpected' }),
          stored: () => owner.query('SELECT message_id, data FROM notifier.refused_messages'),
        };
      },
      orElse: ['known'],
    },
  },
  openUnderTest,
);

test('a consumer cannot unmake what took effect', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  for (const statement of [
    'DELETE FROM inbox',
    'UPDATE inbox SET payload_hash = payload_hash',
    'DELETE FROM cursors',
    'DELETE FROM altered_copies',
    'DELETE FROM refused_messages',
    'UPDATE early_events SET event = event',
    'TRUNCATE early_events',
    'UPDATE cursors SET ordering_key = ordering_key',
    'UPDATE altered_copies SET known_hash = payload_hash',
  ]) {
    await assert.rejects(database.query(statement), /permission denied/, statement);
  }
});

test('a cursor begins at 1, steps forward by one and is kept, whoever asks', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const first = anEvent();
  await openInbox(database, 'partner-notifier').receive([first], () => Promise.resolve());
  const owner = store.open();
  for (const asker of [database, owner]) {
    for (const step of ['- 0', '+ 2', '- 1']) {
      const statement = `UPDATE notifier.cursors SET last_sequence = last_sequence ${step}`;
      await assert.rejects(asker.query(statement), /refused/, statement);
    }
    const ahead = `INSERT INTO notifier.cursors VALUES ('partner-notifier', gen_random_uuid(), 2)`;
    await assert.rejects(asker.query(ahead), /begins at 1/);
  }
  for (const statement of [
    'UPDATE notifier.cursors SET last_sequence = 2, ordering_key = gen_random_uuid()',
    'DELETE FROM notifier.cursors',
    'TRUNCATE notifier.cursors',
  ]) {
    await assert.rejects(owner.query(statement), /steps forward by one and is kept/, statement);
  }
  await database.query('UPDATE cursors SET last_sequence = last_sequence + 1');
});

test('a kept event has its payload, trace and order of fields when it is applied', async (context) => {
  const { inbox, effect } = await openUnderTest(context);
  const [first, second] = eventsOf(2);
  const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
  const payload = { z: 'a \0 and \uD800', a: [1, { y: null, b: 2 }] };
  const whole = { ...second!, payload, traceparent };
  await receiveOne(inbox, whole, effect);
  const seen: ReceivedEvent[] = [];
  const watching: Effect = async (tx, events) => {
    seen.push(...events);
    await effect(tx, events);
  };
  await receiveOne(inbox, first!, watching);
  assert.deepEqual(seen[1], whole);
  assert.equal(JSON.stringify(seen[1].payload), JSON.stringify(payload));
});

test('an altered copy of a kept event is recognized, and the kept one is applied', async (context) => {
  const { inbox, effect, effects } = await openUnderTest(context);
  const [first, second] = eventsOf(2);
  await receiveOne(inbox, second!, effect);
  const altered = { ...second!, payloadHash: hashOf('other bytes') };
  const knownHash = second!.payloadHash;
  assert.deepEqual(await receiveOne(inbox, altered, effect), { outcome: 'altered', knownHash });
  await receiveOne(inbox, first!, effect);
  assert.deepEqual(
    (await effects()).map(({ sequence }) => sequence),
    [1, 2],
  );
  assert.deepEqual(await receiveOne(inbox, second!, effect), { outcome: 'duplicate' });
});

test('a consumer that dies between an event and the kept one behind it finds that by a copy, or by itself', async (context) => {
  const { inbox, effect, effects } = await openUnderTest(context);
  for (const found of ['by a copy', 'by itself'] as const) {
    const [first, second] = eventsOf(2);
    await receiveOne(inbox, second!, effect);
    const dying: Effect = async (tx, events) => {
      if (events.some(({ sequence }) => sequence === 2)) throw new Error('the consumer died');
      await effect(tx, events);
    };
    await assert.rejects(receiveOne(inbox, first!, dying), /the consumer died/);
    if (found === 'by itself') assert.equal((await inbox.followUp(effect)).events, 0);
    else {
      assert.deepEqual(await receiveOne(inbox, first!, effect), { outcome: 'duplicate' });
    }
    const mine = (await effects()).slice(-2).map(({ eventId }) => eventId);
    assert.deepEqual(mine, [first!.id, second!.id]);
  }
});

test('an event that was kept early stays until its cursor has passed it, whoever asks', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const owner = store.open();
  const inbox = openInbox(database, 'partner-notifier');
  const nothing = () => Promise.resolve();
  await inbox.receive([second!], nothing);
  for (const asker of [database, owner]) {
    await assert.rejects(
      asker.query('DELETE FROM notifier.early_events'),
      /stays until its cursor/,
    );
  }
  await assert.rejects(owner.query('TRUNCATE notifier.early_events'), /stays until its cursor/);
  await inbox.receive([first!], nothing);
  await database.query('DELETE FROM early_events');
  assert.deepEqual(await owner.query('SELECT FROM notifier.early_events'), []);
});

test('old inbox rows are removed in small batches; cursors, young rows and those without a sequence stay', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const nothing = () => Promise.resolve();
  const old = [anEvent(), anEvent(), anEvent()];
  const conflict = anEvent({ sequence: undefined });
  for (const received of [...old, conflict]) await inbox.receive([received], nothing);
  await openInbox(database, 'another').receive([old[0]!], nothing);
  await store.open().query(`UPDATE notifier.inbox SET received_at = now() - interval '31 days'`);
  await inbox.receive([anEvent()], nothing);

  const horizon = { keepMs: 30 * 86_400_000, rowsMax: 2 };
  assert.deepEqual(
    [await inbox.reap(horizon), await inbox.reap(horizon), await inbox.reap(horizon)],
    [2, 1, 0],
  );
  for (const received of [...old, conflict]) {
    assert.deepEqual(await inbox.receive([received], nothing), [{ outcome: 'duplicate' }]);
  }
  const rows = await database.query('SELECT consumer FROM inbox ORDER BY consumer');
  assert.deepEqual(
    rows,
    ['another', 'partner-notifier', 'partner-notifier'].map((consumer) => ({ consumer })),
  );
});

test('an inbox forgets nothing younger than a day, and for its own consumer only', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  await assert.rejects(inbox.reap({ keepMs: 3_600_000, rowsMax: 1 }), /a day/);
  const other = store.open('triplock_auditor');
  await assert.rejects(
    other.query(`SELECT notifier.reap_inbox('partner-notifier', interval '30 days', 1)`),
    /permission denied/,
  );
});

test('an altered copy is kept once, with how often it came', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const event = anEvent();
  const nothing = () => Promise.resolve();
  for (const payloadHash of ['known', 'altered', 'altered', 'another']) {
    await inbox.receive([{ ...event, payloadHash }], nothing);
  }
  const sql = 'SELECT payload_hash, known_hash, copies FROM altered_copies ORDER BY payload_hash';
  assert.deepEqual(await database.query(sql), [
    { payload_hash: 'altered', known_hash: 'known', copies: 2 },
    { payload_hash: 'another', known_hash: 'known', copies: 1 },
  ]);
});

test('events are admitted, by a plan of when nothing was there, without a walk through what is there', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const owner = store.open();
  await owner.query('VACUUM ANALYZE notifier.cursors, notifier.inbox');
  const known = Array.from({ length: 2_000 }, () => anEvent());
  const nothing = () => Promise.resolve();
  const admitTen = (events: readonly ReceivedEvent[]) =>
    database.transaction(async (tx) => {
      const transaction = <Result>(work: (tx: Queryable) => Promise<Result>) => work(tx);
      const inbox = openInbox({ ...database, ...tx, transaction }, 'partner-notifier');
      const outcomes = await inbox.receive(events, nothing);
      const [counts] = await tx.query<{ backend: number; walks: bigint; rows: bigint }>(
        `SELECT pg_backend_pid() AS backend, sum(seq_scan)::int8 AS walks,
                sum(idx_tup_fetch)::int8 AS rows
         FROM pg_stat_xact_user_tables
         WHERE schemaname = 'notifier' AND relname IN ('cursors', 'inbox')`,
      );
      return { ...counts!, outcomes };
    });
  const { backend } = await admitTen([anEvent()]);
  await openInbox(database, 'partner-notifier').receive(known, nothing);
  const next = known.slice(0, 10).map(({ orderingKey }) => anEvent({ orderingKey, sequence: 2 }));
  const all = await admitTen([...next, ...Array.from({ length: 10 }, () => anEvent())]);
  assert.deepEqual([all.backend, all.walks], [backend, 0n]);
  assert.ok(all.rows < 100n, `${all.rows} rows were read`);
  assert.ok(all.outcomes.every(({ outcome }) => outcome === 'applied'));
});

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
