import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { aConsumer } from '@triplock/consumer/test';
import {
  eventOf,
  keyConflictEventOf,
  paymentEventOf,
  followUpEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import { openInbox } from '@triplock/inbox';
import { openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment, Settlement } from '@triplock/payments';
import { createRandom } from '@triplock/runtime';
import { migrate, migrationSets } from '@triplock/postgres';
import {
  aPayment,
  aRefund,
  createTestDatabase,
  eventually,
  messageOf,
  succeeded,
  testLostAnswers,
} from '@triplock/testing';
import { addToBatches, closeDays, type DaysSeen } from './settlement-batches.ts';

async function aFeed(context: TestContext) {
  const { rows, ...consumer } = await aConsumer(context, {
    name: 'settlement-feed',
    shortName: 'settlement',
    role: 'triplock_settlement',
    effect: addToBatches,
  });
  const batches = async () => {
    const found = await rows<{ line: string }>(`
      SELECT format('%s %s %s: %s - %s = %s, %s + %s', partner_id, day, currency,
                    gross, refunds, net, payments, refund_count) AS line
      FROM partners.settlement_batches ORDER BY partner_id, day, currency`);
    return found.map(({ line }) => line);
  };
  return { ...consumer, rows, batches };
}

/** The event of a refund of all of a payment, as its second. */
function refunded(payment: AcceptedPayment, settledAt: string, amount?: bigint): PaymentEvent {
  const { money } = payment.details;
  return followUpEventOf({
    followUp: {
      ...aRefund(payment),
      state: 'succeeded',
      version: 2,
      money: { ...money, amount: amount ?? money.amount },
      settledAt: new Date(settledAt),
    },
    orderedBy: payment.txnId,
    sequence: 2,
  });
}

const at = (event: PaymentEvent, timestamp: string): PaymentEvent => ({ ...event, timestamp });

test('payments and refunds are added by partner, UTC day and currency, to the minor unit', async (context) => {
  const { handle, batches } = await aFeed(context);
  const paid = [
    aPayment({ amount: 1_250n }),
    aPayment({ amount: 999_999_999_999n }),
    aPayment({ amount: 7n, currency: 'JPY' }),
    aPayment({ amount: 100n, partner: 'globex' }),
  ];
  const events = paid.map((payment) => at(succeeded(payment), '2026-03-31T23:59:59.999Z'));
  const late = at(succeeded(aPayment({ amount: 5n })), '2026-04-01T00:00:00.000Z');
  const answers = await Promise.all([...events, late].map((event) => handle(messageOf(event))));
  assert.deepEqual(new Set(answers), new Set(['ack']));
  await handle(messageOf(refunded(paid[0]!, '2026-04-01T12:00:00.000Z', 250n)));
  assert.deepEqual(await batches(), [
    'acme 2026-03-31 EUR: 1000000001249 - 0 = 1000000001249, 2 + 0',
    'acme 2026-03-31 JPY: 7 - 0 = 7, 1 + 0',
    'acme 2026-04-01 EUR: 5 - 250 = -245, 1 + 1',
    'globex 2026-03-31 EUR: 100 - 0 = 100, 1 + 0',
  ]);
});

test('copies, a replay, an altered copy and an early refund change nothing', async (context) => {
  const { handle, batches, rows } = await aFeed(context);
  const payment = aPayment();
  const first = succeeded(payment);
  const second = refunded(payment, '2026-01-02T23:00:00.000Z');
  assert.equal(await handle(messageOf(second)), 'ack');
  assert.deepEqual(await batches(), []);
  await Promise.all([first, first, second, first].map((event) => handle(messageOf(event))));
  await handle(messageOf(second));
  const once = ['acme 2026-01-02 EUR: 1250 - 1250 = 0, 1 + 1'];
  assert.deepEqual(await batches(), once);
  const altered = { ...first, data: { ...first.data, amount: 1_251 } };
  for (const event of [first, second, altered, first]) {
    assert.equal(await handle(messageOf(event)), 'ack');
  }
  assert.deepEqual(await batches(), once);
  assert.equal((await rows('SELECT FROM altered_copies')).length, 1);
});

test('what moved no money is remembered and adds nothing', async (context) => {
  const { handle, batches, rows } = await aFeed(context);
  const payment = aPayment();
  const state = {
    state: 'failed' as const,
    version: 1,
    amountRefunded: 0n,
    settledAt: new Date(),
    failure: { code: 'card_declined', message: 'the card was declined' },
  };
  const failed = paymentEventOf({ ...payment, ...state }, 'payment.failed', 1);
  for (const event of [failed, keyConflictEventOf(aPayment())]) {
    assert.equal(await handle(messageOf(event)), 'ack');
  }
  assert.equal((await rows('SELECT FROM inbox')).length, 2);
  assert.deepEqual(await batches(), []);
});

test('a feed that dies between commit and acknowledgement adds once', async (context) => {
  const { handle, batches, crashPoints } = await aFeed(context);
  const message = messageOf(succeeded(aPayment()));
  crashPoints.arm({ name: 'settlement.received', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.deepEqual(await batches(), []);
  crashPoints.arm({ name: 'settlement.committed', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.equal(await handle(message), 'ack');
  assert.deepEqual(await batches(), ['acme 2026-01-02 EUR: 1250 - 0 = 1250, 1 + 0']);
});

test('batches only grow, whoever asks, and the feed may do nothing else', async (context) => {
  const { store, handle } = await aFeed(context);
  await handle(messageOf(succeeded(aPayment())));
  const owner = store.open();
  for (const statement of [
    'UPDATE partners.settlement_batches SET gross = gross - 1',
    `UPDATE partners.settlement_batches SET currency = 'USD'`,
    'DELETE FROM partners.settlement_batches',
    'TRUNCATE partners.settlement_batches',
  ]) {
    await assert.rejects(owner.query(statement), /batches only grow/, statement);
  }
  const feed = store.open('triplock_settlement');
  for (const statement of [
    `UPDATE partners.settlement_batches SET currency = 'USD'`,
    'DELETE FROM partners.settlement_batches',
    'INSERT INTO partners.settlement_lines DEFAULT VALUES',
    'UPDATE partners.settlement_calendar SET closed_through = now()',
    'SELECT FROM ledger.transactions',
    'SELECT FROM webhooks.deliveries',
  ]) {
    await assert.rejects(feed.query(statement), /permission denied/, statement);
  }
});

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

test('what was settled before there was a feed is in its batches, and its events are known', async (context) => {
  const store = await createTestDatabase(context);
  const owner = store.open();
  // As a database was before the feed's first migration.
  await owner.transaction(async (tx) => {
    await tx.query('DROP SCHEMA settlement CASCADE');
    await tx.query(`DELETE FROM migrations.applied WHERE owner LIKE 'settlement%'`);
  });
  const posting = (amount: bigint, result: Settlement) => ({
    payment: aPayment({ amount }),
    traceparent,
    settlement: { result, settledAt: new Date('2026-03-04T23:59:59.999Z') },
  });
  const declined = { code: 'card_declined', message: 'the card was declined' };
  await openPostgresLedger(store.open('triplock_ledger')).post([
    posting(700n, { state: 'succeeded' }),
    posting(50n, { state: 'succeeded' }),
    posting(9n, { state: 'failed', failure: declined }),
    { payment: aPayment(), traceparent },
  ]);
  await migrate(store.url(), migrationSets);

  const batches = () =>
    owner.query('SELECT day::text, gross, refunds, payments FROM partners.settlement_batches');
  const expected = [{ day: '2026-03-04', gross: 750n, refunds: 0n, payments: 2n }];
  assert.deepEqual(await batches(), expected);
  const inbox = openInbox(store.open('triplock_settlement'), 'settlement-feed');
  const outbox = await owner.query<{ payload: string }>('SELECT payload FROM ledger.outbox');
  const copies = outbox.map(({ payload }) => ({
    ...eventOf(JSON.parse(payload) as PaymentEvent),
    payloadHash: createHash('sha256').update(payload).digest('hex'),
  }));
  const outcomes = await inbox.receive(
    [...copies, { ...copies[0]!, payloadHash: 'other' }],
    addToBatches,
  );
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ['duplicate', 'duplicate', 'duplicate', 'altered'],
  );
  assert.deepEqual(await batches(), expected);
});

const dayMs = 86_400_000;
const firstDay = Date.parse('2025-01-01T00:00:00.000Z');
const dayAt = (nth: number) => new Date(firstDay + nth * dayMs).toISOString().slice(0, 10);

/** Batches, and lines with how many days after their own they are. */
const statementSql = `
  SELECT day::text, net::integer, (payments + refund_count)::integer AS lines,
         (SELECT sum(amount)::integer FROM partners.settlement_lines AS line
          WHERE (line.partner_id, line.day) = (batch.partner_id, batch.day)) AS "ofLines"
  FROM partners.settlement_batches AS batch
  WHERE partner_id = 'acme' AND currency = 'EUR' ORDER BY day`;

test('a year of days is closed one after the other: none of them changes again, and what is late is in the first that is open', async (context) => {
  const { store, handle, rows } = await aFeed(context);
  const close = (complete: string) =>
    rows<{ day: string }>(
      `SELECT partners.close_settlement_days('${complete}', interval '15 minutes')::text AS day`,
    );
  const random = createRandom(2_025);
  const late: PaymentEvent[] = [];
  const expected = new Map<string, number>();
  const add = async (event: PaymentEvent, day: string) => {
    const amount = Number(event.data['amount']);
    expected.set(day, (expected.get(day) ?? 0) + amount);
    assert.equal(await handle(messageOf(event)), 'ack');
  };
  const closedAs = new Map<string, object>();
  for (let nth = 0; nth < 365; nth += 1) {
    const day = dayAt(nth);
    const amount = () => BigInt(1 + Math.floor(random() * 1_000));
    const time = new Date(firstDay + nth * dayMs + Math.floor(random() * dayMs)).toISOString();
    await add(at(succeeded(aPayment({ amount: amount() })), time), day);
    // Some come days after their own is closed, with the time that they were settled at.
    if (random() < 0.3) late.push(at(succeeded(aPayment({ amount: amount() })), time));
    if (random() < 0.3) for (const event of late.splice(0)) await add(event, day);
    const end = Date.parse(`${dayAt(nth + 1)}T00:00:00.000Z`);
    const [early] = await close(new Date(end + 14 * 60_000).toISOString());
    assert.equal(early!.day, dayAt(nth - 1), 'not before its time');
    const [closed] = await close(new Date(end + 15 * 60_000).toISOString());
    assert.equal(closed!.day, day);
    // Nobody opens it again, nor looks further back.
    assert.deepEqual(await close(new Date(end).toISOString()), [{ day }]);
    const [batch] = await rows<{ day: string; net: number }>(
      statementSql.replace('ORDER BY', `AND day = '${day}' ORDER BY`),
    );
    closedAs.set(day, batch!);
  }
  const all = await rows<{ day: string; net: number; ofLines: number }>(statementSql);
  assert.deepEqual(all, [...closedAs.values()]);
  assert.deepEqual(
    all.map(({ day, net, ofLines }) => [day, net, ofLines]),
    [...expected].map(([day, sum]) => [day, sum, sum]),
  );
  const owner = store.open();
  const [days] = await owner.query<{ late: number; early: number }>(`
    SELECT count(*) FILTER (WHERE day > (settled_at AT TIME ZONE 'UTC')::date)::integer AS late,
           count(*) FILTER (WHERE day < (settled_at AT TIME ZONE 'UTC')::date)::integer AS early
    FROM partners.settlement_lines`);
  assert.ok(days!.late > 50, `${days!.late} were late`);
  assert.equal(days!.early, 0);
  for (const statement of [
    `UPDATE partners.settlement_batches SET gross = gross + 1 WHERE day = '${dayAt(3)}'`,
    `INSERT INTO partners.settlement_batches VALUES ('acme', '${dayAt(3)}', 'USD', 1, 0, DEFAULT, 1, 0)`,
    `UPDATE partners.settlement_calendar SET closed_through = '${dayAt(3)}'`,
    'UPDATE partners.settlement_calendar SET complete_through = NULL',
    'DELETE FROM partners.settlement_calendar',
    'UPDATE partners.settlement_lines SET day = day + 1',
  ]) {
    await assert.rejects(owner.query(statement), /is closed|stays so|only grow/, statement);
  }
});

test('a day is not closed while somebody adds to it, and what comes after is late', async (context) => {
  const { store, database, rows } = await aFeed(context);
  const owner = store.open();
  const inbox = openInbox(database, 'settlement-feed');
  const [standing, adding] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const eventAt = (time: string) => {
    const event = at(succeeded(aPayment({ amount: 7n })), time);
    return { ...eventOf(event), payloadHash: event.event_id };
  };
  const slow = inbox.receive([eventAt('2026-03-31T23:59:59.000Z')], async (tx, events) => {
    await addToBatches(tx, events);
    adding.resolve();
    await standing.promise;
  });
  await adding.promise;
  const closing = store
    .open('triplock_settlement')
    .query(`SELECT partners.close_settlement_days('2026-04-01T01:00:00Z', interval '15 minutes')`);
  const waits = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
  await eventually(async () => (await owner.query(waits)).length > 0).finally(standing.resolve);
  await Promise.all([slow, closing]);
  await inbox.receive([eventAt('2026-03-31T23:59:59.999Z')], addToBatches);
  assert.deepEqual(
    await rows('SELECT day::text, payments::integer FROM partners.settlement_batches ORDER BY day'),
    [
      { day: '2026-03-31', payments: 1 },
      { day: '2026-04-01', payments: 1 },
    ],
  );
});

test('days are complete as far as all that was told is added, on a server that has all that was told', async (context) => {
  const { store, database, rows } = await aFeed(context);
  const owner = store.open();
  const ledger = openPostgresLedger(store.open('triplock_ledger'));
  await ledger.post(
    [0, 1, 2].map(() => {
      const settledAt = new Date(Date.now() - 4 * dayMs);
      return {
        payment: aPayment(),
        traceparent,
        settlement: { result: { state: 'succeeded' }, settledAt },
      };
    }),
  );
  /** As it was told some minutes ago, and looked at before. */
  const [first, second, third] = await owner.transaction(async (tx) => {
    await tx.query('SET LOCAL session_replication_role = replica');
    await tx.query(`UPDATE partners.settlement_calendar
      SET complete_through = now() - interval '40 minutes', closed_through = '2020-01-01'`);
    return tx.query<{ id: string; payload: string }>(`
      UPDATE ledger.outbox SET created_at = now() - interval '30 minutes' + (
        SELECT count(*) FROM ledger.outbox AS other WHERE other.order_id < outbox.order_id
      ) * interval '10 minutes'
      RETURNING event_id AS id, payload`);
  });
  const seen: DaysSeen[] = [];
  const pass = closeDays(database, { afterMs: 900_000, seen: (days) => seen.push(days) });
  const minutesBehind = async () => {
    while ((await pass()) > 0);
    const [calendar] = await rows<{ minutes: number }>(`
      SELECT extract(epoch FROM now() - complete_through)::float8 / 60 AS minutes
      FROM partners.settlement_calendar`);
    return calendar!.minutes;
  };
  const isNear = (minutes: number, expected: number) =>
    assert.ok(Math.abs(minutes - expected) < 0.9, `${minutes} is not ${expected}`);
  const publish = (of: { id: string }) =>
    owner.query(
      `UPDATE ledger.outbox SET state = 'published', published_at = created_at, published_epoch = 1
       WHERE event_id = $1`,
      [of.id],
    );
  const apply = async (of: { payload: string }) => {
    const event = JSON.parse(of.payload) as PaymentEvent;
    const payloadHash = createHash('sha256').update(of.payload).digest('hex');
    const inbox = openInbox(database, 'settlement-feed');
    await inbox.receive([{ ...eventOf(event), payloadHash }], addToBatches);
  };
  await publish(first!);
  await publish(third!);
  // Published and not applied, not published, and both.
  isNear(await minutesBehind(), 30);
  await apply(first!);
  await apply(third!);
  isNear(await minutesBehind(), 20);
  await publish(second!);
  isNear(await minutesBehind(), 20);
  await owner.query(`UPDATE ledger.continuity SET set_back_at = now()`);
  await apply(second!);
  isNear(await minutesBehind(), 20);
  await owner.query(`UPDATE ledger.continuity SET set_back_at = NULL, server = 'another'`);
  isNear(await minutesBehind(), 20);
  await owner.query(`UPDATE ledger.continuity SET server = ledger.this_server()`);
  isNear(await minutesBehind(), 1);
  const { openUntil } = seen.at(-1)!;
  assert.ok(openUntil!.getTime() > Date.now() - 900_000 - 60_000, openUntil!.toISOString());
});

test('nothing is complete before its time, and no day is closed at its end', async (context) => {
  const { rows } = await aFeed(context);
  for (const [complete, grace] of [
    [`now() + interval '1 hour'`, `interval '1 hour'`],
    [`'infinity'`, `interval '1 hour'`],
    ['now()', `interval '0'`],
  ]) {
    const closing = rows(`SELECT partners.close_settlement_days(${complete}, ${grace})`);
    await assert.rejects(closing, /nothing is complete through/, complete);
  }
  assert.deepEqual(
    await rows(`SELECT partners.close_settlement_days(NULL, interval '1 hour')::text AS day`),
    [{ day: null }],
  );
});

async function aFeedByRelay(context: TestContext) {
  const store = await createTestDatabase(context);
  const { database, relay } = await store.openByRelay('triplock_settlement');
  const past = store.open('triplock_settlement');
  const stored = () =>
    past.query('SELECT gross, refunds, payments, refund_count FROM partners.settlement_batches');
  return { relay, inbox: openInbox(database, 'settlement-feed'), stored };
}

const paid = aPayment({ amount: 700n });
const moved = [succeeded(paid), refunded(paid, '2026-01-02T23:00:00.000Z', 200n)].map((event) => ({
  ...eventOf(event),
  payloadHash: createHash('sha256').update(event.event_id).digest('hex'),
}));

testLostAnswers<Awaited<ReturnType<typeof aFeedByRelay>>>(
  {
    'adding a payment and its refund to their batch': {
      prepare: async ({ inbox, stored }) => ({
        operation: async () =>
          (await inbox.receive(moved, addToBatches)).map(({ outcome }) => outcome),
        stored,
      }),
      orElse: [
        ['duplicate', 'applied'],
        ['duplicate', 'duplicate'],
      ],
    },
  },
  aFeedByRelay,
);
