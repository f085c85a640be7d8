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
import { migrate, migrationSets } from '@triplock/postgres';
import {
  aPayment,
  aRefund,
  createTestDatabase,
  messageOf,
  succeeded,
  testLostAnswers,
} from '@triplock/testing';
import { addToBatches } from './settlement-batches.ts';

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
