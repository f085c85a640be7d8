import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { claimStores, keepingStores } from '@triplock/claim-stores';
import { openPostgresFollowUps, openPostgresLedger } from '@triplock/ledger';
import {
  currencies,
  deriveTxnId,
  followUpKinds,
  minorDigits,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import type { JournalRow } from '@triplock/provider';
import {
  aPayment,
  aRefund,
  createTestDatabase,
  createTestTopic,
  testNamespace,
  testPart,
} from '@triplock/testing';
import { UsageError } from '@triplock/command';
import { readEffects, type Consumed, type PaymentTrace } from '@triplock/inspect';
import { consumers } from '@triplock/pipeline';
import { openOperator } from './test/run-operator.ts';
import { renderTrace, txnIdsFrom } from './trace.ts';

const runOperator = openOperator({ after });

const order1001 = '37585521-60c9-8d90-a37f-2e1b8a7081e6';

test('one is named by its id, or by its partner and key in either form, whatever its kind', () => {
  assert.deepEqual(txnIdsFrom([order1001]), [order1001]);
  const [payment, ...others] = txnIdsFrom(['acme', 'order-1001']);
  assert.equal(payment, order1001);
  const acme = 'acme' as PartnerId;
  const key = 'order-1001' as IdempotencyKey;
  const ids = followUpKinds.map((kind) => deriveTxnId(kind, acme, key));
  assert.deepEqual(others, ids);
  assert.deepEqual(txnIdsFrom(['acme', '"order-1001"']), [payment, ...others]);
});

test('what can be no payment is refused', () => {
  const random = 'f47ac10b-58cc-4372-a567-0e02b2c3d479';
  for (const words of [[], ['order-1001'], [random], ['acme', ''], ['acme', 'schlüssel']]) {
    assert.throws(() => txnIdsFrom(words), UsageError);
  }
});

test('whatever follows a payment is found by its key, and says of what it is', async (t) => {
  const store = await createTestDatabase(t);
  const database = store.open('triplock_ledger');
  const [ledger, followUps] = [openPostgresLedger(database), openPostgresFollowUps(database)];
  const { brokers, topic } = await createTestTopic(t);
  const settings = {
    DATABASE_URL: store.url('triplock_auditor'),
    KAFKA_BROKERS: brokers[0]!,
    ACCEPTED_TOPIC: topic,
    REDIS_URL: await testPart('redis'),
    CLAIM_NAMESPACE: testNamespace('claims'),
  };
  const trace = (...words: string[]) => runOperator(['trace', ...words], settings);
  const traceparent = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
  const settledAt = new Date();
  const payment = aPayment({ key: 'order-1', paymentMethod: 'pm_card_visa' });
  const other = aPayment({ key: 'order-2', paymentMethod: 'pm_card_visa' });
  await ledger.post([payment, other].map((each) => ({ payment: each, traceparent })));
  const all = followUpKinds.map((kind) => aRefund(payment, { kind, key: `its-${kind}` }));
  const ofOther = followUpKinds.map((kind) => aRefund(other, { kind, key: 'order-1' }));
  for (const followUp of [...all, ...ofOther]) {
    await followUps.post({ followUp, traceparent, settledAt });
  }
  for (const { kind, key, txnId } of all) {
    const { code, stdout, stderr } = await trace('acme', key);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^${txnId} .*\na ${kind} of ${payment.txnId}\n`));
  }
  // One of each kind may have the same key.
  const { stdout } = await trace('acme', 'order-1', '--json');
  const { sameKey, ...first } = JSON.parse(stdout) as PaymentTrace & { sameKey: PaymentTrace[] };
  assert.deepEqual(
    [first, ...sameKey].map(({ txnId, ledger: [row] }) => [row?.kind, txnId, row?.paymentId]),
    [payment, ...ofOther].map((each) => {
      return [each.kind, each.txnId, 'paymentId' in each ? each.paymentId : null];
    }),
  );
  const nobody = await trace('acme', 'order-3');
  assert.equal(nobody.code, 1);
  assert.match(nobody.stderr, /no layer knows a payment, refund, capture, cancellation of acme by/);
});

const at = (ms: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, 5, ms));

/** What each consumer has of an event, by its place in the list. */
function consumedAs(
  what: (nth: number) => { rows: number; receivedAt: Date | null; isPast: boolean },
): Consumed {
  const fields = consumers.flatMap(({ trace }, nth) => {
    const { rows, receivedAt, isPast } = what(nth);
    return [
      [trace.rows, rows],
      [trace.receivedAt, receivedAt],
      [trace.isPast, isPast],
    ];
  });
  return Object.fromEntries(fields) as Consumed;
}

/** A payment whose inbox row is older than the auditor's look, and whose claim has left. */
function aTrace(): PaymentTrace {
  const event = {
    eventId: 'e',
    type: 'payment.succeeded',
    sequence: 1,
    traceId: 'a'.repeat(32),
    createdAt: at(20),
    state: 'published',
    publishedAt: at(30),
    copies: 1,
    altered: 0,
    firstSeenAt: at(41),
    lastSeenAt: at(41),
    delivery: 'delivered',
    attempts: 1,
    deliveredAt: at(52),
    ...consumedAs((nth) => ({ rows: 1, receivedAt: at(40 + 20 * nth), isPast: true })),
  };
  const { txnId } = aPayment();
  return {
    txnId,
    claims: 'redis',
    claim: undefined,
    kafka: {
      partition: 3,
      records: [{ offset: '7', at: at(10), bytes: 1, txnId, traceId: 'a'.repeat(32) }],
      complete: true,
    },
    ledger: [],
    entries: [],
    events: [event],
    deadLetters: [],
    receipts: [
      {
        id: 'e',
        partner: 'acme',
        verified: true,
        attempts: 1,
        effects: 1,
        type: event.type,
        firstAt: at(50).toISOString(),
        lastAt: at(50).toISOString(),
      },
    ],
    provider: [],
    refunds: [],
    ledgerUntil: undefined,
    unasked: [],
  };
}

const text = (trace: PaymentTrace) => renderTrace(trace).map(stripVTControlCharacters).join('\n');

/** The trace of a card payment of which something was given back, once tried in vain. */
function aCardTrace(): PaymentTrace {
  const paid = aTrace();
  const refund = aRefund({ ...aPayment(), txnId: paid.txnId });
  const money = { amount: 1_250n, currency: 'EUR' };
  const row = {
    partner: 'acme',
    key: 'k',
    fingerprint: 'f',
    state: 'succeeded',
    failure: null,
    ...money,
    createdAt: at(0),
    settledAt: at(25),
    provider: 'stripe',
    intentId: 'pi_1',
    chargeId: 'ch_1',
    refundId: null,
  };
  const booked: JournalRow = {
    kind: 'charge',
    id: 'ch_1',
    status: 'succeeded',
    createdAt: at(0),
    ...money,
  };
  const given = { ...row, state: 'failed', failure: 'amount_exceeds_refundable' };
  const records = [
    { offset: '7', at: at(10), bytes: 1, txnId: paid.txnId, traceId: 'a'.repeat(32) },
    { offset: '8', at: at(60), bytes: 1, txnId: refund.txnId, traceId: 'b'.repeat(32) },
    { offset: '9', at: at(70), bytes: 1, txnId: refund.txnId, traceId: 'c'.repeat(32) },
  ];
  return {
    ...paid,
    kafka: { partition: 3, records, complete: true },
    ledger: [{ ...row, kind: 'payment', paymentId: null }],
    provider: [
      { kind: 'charge', id: 'ch_1', row: booked },
      { kind: 'intent', id: 'pi_1', row: undefined },
    ],
    refunds: [
      {
        txnId: refund.txnId,
        claim: undefined,
        receipts: [],
        provider: [],
        entries: [],
        events: [],
        deadLetters: [],
        ledger: [{ ...given, kind: 'refund', paymentId: paid.txnId, amount: null, currency: null }],
      },
    ],
  };
}

test('a trace writes an amount with the digits of its currency, in every currency and at each hop', () => {
  const { ledger, provider, ...trace } = aCardTrace();
  for (const currency of currencies) {
    const digits = minorDigits(currency)!;
    const fraction = '3581'.slice(0, digits);
    const money = { amount: BigInt(`27614${fraction}`), currency };
    const written = `27 614${digits === 0 ? '' : '.'}${fraction} ${currency}`;
    const [row, { row: charge }] = [ledger[0]!, provider[0]!];
    const entry = {
      debit: 'provider.stripe:clearing',
      credit: 'acme:payable',
      ...money,
      at: at(25),
    };
    const shown = text({
      ...trace,
      ledger: [{ ...row, ...money }],
      entries: [entry],
      provider: [{ kind: 'charge', id: 'ch_1', row: { ...charge!, ...money } }],
    });
    assert.equal(shown.split(written).length - 1, 3, `head, entry and provider in ${shown}`);
  }
});

test('a payment is shown with its refunds and with what the provider has', () => {
  const trace = aCardTrace();
  const shown = text(trace);
  const [refund] = trace.refunds;
  assert.match(shown, new RegExp(`refund ${refund!.txnId} · failed: amount_exceeds_refundable`));
  assert.match(shown, /provider {2,}charge ch_1 succeeded, 12\.50 EUR/);
  assert.match(shown, /provider {2,}no intent pi_1/);
  assert.deepEqual(shown.match(/^trace .+/gm), [`trace ${'a'.repeat(32)}`]);
  assert.match(shown, / Kafka {2,}partition 3, offset 7\n/);
  assert.match(shown, / refund: Kafka {2,}partition 3, offset 8\n/);
  assert.match(shown, / refund: Kafka {2,}partition 3, offset 9 \(a duplicate/);
});

test('a part that was not asked is named, and nothing is claimed about it', () => {
  const why = 'kafka is not running: `npm run up` starts it again';
  const unasked = ['kafka', 'redis', 'postgres'].map((part) => ({ part, why }));
  const shown = text({ ...aTrace(), kafka: undefined, unasked });
  assert.match(shown, /not asked: kafka is not running: `npm run up` starts it again/);
  assert.doesNotMatch(shown, /Kafka {2,}|guard 1 claim|guard 2 ledger|not in the ledger/);
  assert.match(shown, /webhook {2,}e, signature verified/);
  const late = text({ ...aTrace(), ledgerUntil: at(7) });
  assert.match(late, /what changed after 2026-01-02T03:04:05\.007Z may be missing/);
});

test('of a record that is not found no more is said than what is known', () => {
  const paid = aCardTrace();
  const kafka = { partition: 3, records: [], complete: true };
  assert.match(text({ ...paid, kafka }), / Kafka {2,}none in partition 3: past its retention\n/);
  // A refund that is not in the ledger yet: its record may be there, under its payment's id.
  const waits = text({ ...paid, kafka, ledger: [], refunds: [] });
  assert.match(waits, / Kafka {2,}none in partition 3: .*, or under the id of the payment/);
});

test('a claim that is gone is named by the store that it was in', () => {
  const lineOf = (trace: PaymentTrace) => {
    const lines = renderTrace(trace).map(stripVTControlCharacters);
    return lines.find((line) => line.includes('guard 1 claim'))!;
  };
  assert.match(lineOf(aTrace()), /none in Redis: expired or forgotten/);
  for (const claims of keepingStores) {
    const words = `none in ${claimStores[claims].title}: expired`;
    assert.ok(lineOf({ ...aTrace(), claims }).includes(words), words);
  }
});

test('what each consumer has of an event is shown, also once its inbox row has left', () => {
  const linesOf = (change: Partial<Consumed>) => {
    const trace = aTrace();
    const shown = text({ ...trace, events: [{ ...trace.events[0]!, ...change }] }).split('\n');
    return consumers.map(({ trace: { layer } }) => shown.find((line) => line.includes(layer))!);
  };
  for (const line of linesOf({})) assert.match(line, /guard 3 \w+ {2,}1 row, so 1 effect/);
  for (const isPast of [true, false]) {
    const gone = consumedAs(() => ({ rows: 0, receivedAt: null, isPast }));
    const is = isPast ? /row gone by age, its effect stays/ : /not there yet/;
    for (const line of linesOf(gone)) assert.match(line, is);
  }
});

test('a trace is in order of time, and what has no time stays behind the layer before it', () => {
  const [, , , , ...rows] = renderTrace(aTrace()).map(stripVTControlCharacters);
  const layers = rows.map((row) => row.slice(row.search(/guard|Kafka|outbox|Pub|deliv|webhook/)));
  assert.deepEqual(
    layers.map((layer) => layer.split(/ {2,}/)[0]),
    [
      'guard 1 claim',
      'Kafka',
      'guard 2 ledger',
      'outbox',
      consumers[0].trace.layer,
      'Pub/Sub',
      'webhook',
      'delivery',
      ...consumers.slice(1).map(({ trace }) => trace.layer),
    ],
  );
  const times = rows.map((row) => row.slice(0, 12).trim()).filter((time) => /^\d/.test(time));
  assert.deepEqual(times, [...times].sort());
});

test('what each consumer has of an event is listed apart, with the rights of an auditor', async (t) => {
  const store = await createTestDatabase(t);
  const { txnId } = aPayment();
  await store.open().query(
    `INSERT INTO ledger.outbox (event_id, payment_id, txn_id, event_type, sequence, partner_id,
                                bucket, payload, traceparent)
     VALUES ($1, $1, $1, 'payment.succeeded', 1, 'acme', 0, '{}', '')`,
    [txnId],
  );
  const read = async () => {
    const { events } = await readEffects(store.open('triplock_auditor'), txnId);
    return consumers.map(({ trace: { rows, isPast } }) => [events[0]![rows], events[0]![isPast]]);
  };
  const has = consumers.map((): [number, boolean] => [0, false]);
  for (const [nth, { name, schema }] of consumers.entries()) {
    assert.deepEqual(await read(), has);
    await store.open(`triplock_${schema}`).query(
      `WITH known AS (
         INSERT INTO inbox (consumer, event_id, payload_hash, ordering_key, sequence)
         VALUES ($2, $1, '', $1, 1)
       )
       INSERT INTO cursors VALUES ($2, $1, 1)`,
      [txnId, name],
    );
    has[nth] = [1, true];
    assert.deepEqual(await read(), has);
    await store.open().query(`DELETE FROM ${schema}.inbox`);
    has[nth] = [0, true];
  }
  assert.deepEqual(await read(), has);
});
