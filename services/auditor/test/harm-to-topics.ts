import { keyConflictEventOf } from '@triplock/contracts';
import type { AcceptedPayment } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import {
  add,
  change,
  eventOfPaid,
  eventOfRefund,
  paid,
  paidEvent,
  paidOfEvent,
  paidSequence,
  refund,
  refundEvent,
  refundInOrder,
  refundOfEvent,
  remove,
  succeededEvent,
} from '@triplock/testing/test';
import { disputed, type Harm, type Rows } from './harm.ts';
import { askedCard } from './harm-to-ledger.ts';

const loserOf = (winner: AcceptedPayment) =>
  aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });

/** Harms the rows of both a payment and a refund, one at a time. */
const both = (harmOf: (rows: Rows) => Harm) => [harmOf(paid), harmOf(refund)];
/** The same of their events, and where the transactions are named. */
const bothEvents = (harmOf: (rows: Rows) => Harm) => [harmOf(paidEvent), harmOf(refundEvent)];
const eventsOfBoth = (harmOf: (rows: Rows) => Harm) => [harmOf(eventOfPaid), harmOf(eventOfRefund)];

const outbox = (column: string, value: string, rows: Rows, along?: string) =>
  change(`ledger.outbox.${column}`, value, rows, along);
const published = (column: string, value: string, rows: Rows) =>
  change(`auditor.published.${column}`, value, rows);

/** A request that lost its key, whose record is a dead letter and whose partner has its event. */
const conflictEvent: Rows = {
  by: 'event_id',
  find: async ({ system, paid }) => {
    const loser = loserOf(paid);
    await system.loseKey(loser);
    const { event_id: id } = keyConflictEventOf(loser);
    return { key: id, id };
  },
};

/** A payment that is a dead letter. */
const deadPayment: Rows = {
  by: 'txn_id',
  find: async ({ system }) => {
    const dead = aPayment();
    await system.deadLetter(await system.accept(dead), 'unpostable');
    return { key: dead.txnId, id: dead.txnId };
  },
};

/** A record that is no payment, and a dead letter. */
const deadRecord: Rows = {
  by: 'kafka_offset',
  find: async ({ system }) => {
    const record = { ...system.record(aPayment()), value: null };
    await system.append([record]);
    await system.deadLetter(record, 'null_value');
    return { key: String(record.offset), id: `${record.topic}/0/${record.offset}` };
  },
};

/** The event of a payment that failed. */
const failedEvent: Rows = {
  by: 'txn_id',
  find: async ({ system }) => {
    const declined = aPayment();
    const { event_id: id } = await system.decline(declined);
    return { key: declined.txnId, id };
  },
};

/** For every check of what was accepted some things that it exists to see. */
const harmsToAccepted: Record<string, readonly Harm[]> = {
  'claim-unaccounted': [
    add('auditor.claims_unaccounted', async ({ system }) => {
      const { txnId, partnerId } = aPayment();
      const claimed = `
        INSERT INTO auditor.claims_unaccounted (
          txn_id, fingerprint, partner_id, accepted_at, topic, kafka_partition, before_offset,
          confirmed_at
        )
        VALUES ($1, decode(repeat('07', 32), 'hex'), $2, now(), 'payments.accepted.v1', 0, 9, now())`;
      await system.break(claimed, [txnId, partnerId]);
      return txnId;
    }),
  ],
  'accepted-lost': [
    add('auditor.accepted_lost', async ({ system }) => {
      const times = `'2026-01-02T03:04:05Z', '2026-01-02T03:05:06Z'`;
      const lost = `
        INSERT INTO auditor.accepted_lost
          (lost_id, topic, kafka_partition, from_offset, to_offset, why, whole_at, found_at)
        OVERRIDING SYSTEM VALUE
        VALUES (4711, 'payments.accepted.v1', 3, 120, 123, 'dropped', ${times})`;
      await system.break(lost);
      return '4711/payments.accepted.v1/3/120-122/dropped/2026-01-02T03:04:05Z/2026-01-02T03:05:06Z';
    }),
  ],
  'accepted-unaccounted': [
    add('auditor.accepted', async ({ system }) => {
      const lost = aPayment();
      await system.accept(lost);
      return lost.txnId;
    }),
    add('auditor.accepted', async ({ system, paid }) => {
      const lost = aRefund(paid);
      await system.accept(lost);
      return lost.txnId;
    }),
    ...both((rows) => change('ledger.transactions.txn_id', 'gen_random_uuid()', rows)),
    ...both((rows) => change('ledger.transactions.fingerprint', `sha256('')`, rows)),
    change('auditor.dead_letters.txn_id', 'gen_random_uuid()', deadPayment),
    change('auditor.dead_letters.fingerprint', `sha256('')`, deadPayment),
  ],
  'key-conflict-untold': [
    {
      async harm({ system, paid }) {
        await system.deadLetter(await system.accept(loserOf(paid)), 'key_conflict');
        return paid.txnId;
      },
    },
    {
      async harm({ system, paid, refund }) {
        const loser = aRefund(paid, { key: refund.key, amount: 7n });
        await system.deadLetter(await system.accept(loser), 'key_conflict');
        return refund.txnId;
      },
    },
  ],
  'key-conflict-unfounded': [
    add('ledger.outbox', async ({ system, paid }) => {
      const loser = loserOf(paid);
      await system.conflict(loser);
      return keyConflictEventOf(loser).event_id;
    }),
    outbox('partner_id', `'globex'`, conflictEvent),
    outbox('payment_id', 'gen_random_uuid()', conflictEvent),
  ],
  'refused-record-not-dead-lettered': [
    add('auditor.accepted_refused', async ({ system }) => {
      const record = { ...system.record(aPayment()), value: null };
      await system.append([record]);
      return `${record.topic}/0/${record.offset}`;
    }),
    change('auditor.dead_letters.topic', `'another'`, deadRecord),
    change('auditor.dead_letters.kafka_partition', 'kafka_partition + 1', deadRecord),
    change('auditor.dead_letters.kafka_offset', 'kafka_offset + 1000000', deadRecord),
  ],
  'dead-letter-unfounded': [
    add('auditor.dead_letters', async ({ system }) => {
      const record = { ...system.record(aPayment()), value: null };
      await system.deadLetter(record, 'null_value');
      return `${record.topic}/0/${record.offset}`;
    }),
    change('auditor.accepted_refused.topic', `'another'`, deadRecord),
    change('auditor.accepted_refused.kafka_partition', 'kafka_partition + 1', deadRecord),
    change('auditor.accepted_refused.kafka_offset', 'kafka_offset + 1000000', deadRecord),
  ],
};

/** For every check of the outbox and of what was published some things that it exists to see. */
const harmsToEvents: Record<string, readonly Harm[]> = {
  'event-unpublished': [
    {
      async harm({ system }) {
        const quiet = aPayment();
        await system.post(quiet);
        return succeededEvent(quiet).event_id;
      },
    },
    ...bothEvents((rows) =>
      outbox('state', `'pending'`, rows, 'published_at = NULL, published_epoch = NULL'),
    ),
  ],
  'published-unseen': [
    ...bothEvents((rows) => remove('auditor.published', rows)),
    ...bothEvents((rows) => published('event_id', 'gen_random_uuid()', rows)),
  ],
  'event-differs-from-ledger': [
    ...eventsOfBoth((rows) => remove('ledger.outbox', rows)),
    remove('ledger.outbox', askedCard()),
    change('ledger.transactions.action_expires_at', 'NULL', askedCard()),
    change('ledger.transactions.action_expires_at', 'now()', paid),
    remove('ledger.outbox', disputed('outbox', 'payment')),
    remove('ledger.disputes', disputed('ledger', 'payment')),
    change('ledger.disputes.dispute_id', `'du-2'`, disputed('ledger', 'payment')),
    change('ledger.transactions.authorized_at', 'now()', paid),
    ...eventsOfBoth((rows) => outbox('event_id', 'gen_random_uuid()', rows)),
    ...eventsOfBoth((rows) => outbox('event_type', `'payment.failed'`, rows)),
    ...eventsOfBoth((rows) => outbox('txn_id', 'gen_random_uuid()', rows)),
    ...eventsOfBoth((rows) => outbox('partner_id', `'globex'`, rows)),
  ],
  'event-tells-otherwise': [
    ...bothEvents((rows) => outbox('payload', `replace(payload, '250,', '251,')`, rows)),
    ...bothEvents((rows) => outbox('payload', `replace(payload, 'p":"20', 'p":"10')`, rows)),
    ...bothEvents((rows) => outbox('bucket', '(bucket + 1) % 64', rows)),
    outbox('payment_id', 'gen_random_uuid()', refundEvent),
    change('ledger.transactions.payment_id', 'gen_random_uuid()', refundOfEvent),
    ...[paidOfEvent, refundOfEvent].map((rows) =>
      change('ledger.transactions.settled_at', `settled_at + interval '1 s'`, rows),
    ),
    change('ledger.transactions.failure_code', `'another'`, failedEvent),
    change('ledger.transactions.action_expires_at', 'now()', askedCard('event')),
    ...[
      ['created_at', `created_at + interval '1 s'`],
      ['dispute_id', `'du-3'`],
      ['sequence', 'sequence + 10'],
      ['amount', 'amount + 1'],
      ['reason', `'general'`],
    ].map(([column, value]) =>
      change(`ledger.disputes.${column}`, value!, disputed('ledger', 'event')),
    ),
    outbox('payload', `replace(payload, '"expires_at":"2', '"expires_at":"3')`, askedCard('event')),
    outbox('payload', `replace(payload, '"pending"', '"failed"')`, askedCard('event')),
    change('ledger.transactions.failure_message', `'another'`, failedEvent),
    outbox('payload', `replace(payload, ':7,', ':8,')`, conflictEvent),
    outbox('payload', `'no JSON'`, conflictEvent),
    outbox('payload', `'no JSON'`, askedCard('event')),
  ],
  'sequence-has-a-gap': [
    outbox('sequence', 'sequence + 10', paidSequence),
    outbox('sequence', 'sequence * 2 - 1', paidSequence),
    outbox('sequence', 'sequence + 1', refundInOrder),
  ],
  'event-parked': bothEvents((rows) =>
    outbox(
      'state',
      `'parked'`,
      rows,
      `parked_reason = 'too large', published_at = NULL, published_epoch = NULL`,
    ),
  ),
  'published-unfounded': [
    add('auditor.published', async ({ system }) => {
      const forged = succeededEvent(aPayment());
      await system.see(forged);
      return forged.event_id;
    }),
  ],
  'published-differs-from-outbox': [
    ...bothEvents((rows) => published('payload_hash', `'another'`, rows)),
    ...bothEvents((rows) => published('event_type', `'payment.failed'`, rows)),
    ...bothEvents((rows) => published('txn_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => published('payment_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => published('partner_id', `'globex'`, rows)),
    ...bothEvents((rows) => published('sequence', 'sequence + 1', rows)),
  ],
  'published-differs-from-ledger': [
    ...bothEvents((rows) => published('amount', 'amount + 1', rows)),
    ...bothEvents((rows) => published('currency', `'USD'`, rows)),
    ...bothEvents((rows) => published('partner_id', `'globex'`, rows)),
    ...bothEvents((rows) => published('event_type', `'payment.failed'`, rows)),
  ],
  'published-altered': [
    {
      async harm({ system, refunded }) {
        await system.see({ ...refunded, timestamp: '2020-01-01T00:00:00.000Z' });
        return refunded.event_id;
      },
    },
    published('altered', 'altered + 1', paidEvent),
  ],
};

export const harmsToTopics = { ...harmsToAccepted, ...harmsToEvents };
