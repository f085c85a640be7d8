import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveTxnId, type AcceptedPayment, type AcceptedFollowUp } from '@triplock/payments';
import fc from 'fast-check';
import { anyAccepted, anyAcceptedRefund } from '../test/arbitrary-transactions.ts';
import {
  decodeAccepted,
  encodePaymentAccepted,
  encodeFollowUpAccepted,
  type EncodedRecord,
  type UndecodedRecord,
} from './accepted-record.ts';

const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const payment = fc.sample(anyAccepted, { numRuns: 1, seed: 1 })[0]!;
const refund = fc.sample(anyAcceptedRefund, { numRuns: 1, seed: 1 })[0]!;

test('a payment comes out of the topic as it went in', () => {
  fc.assert(
    fc.property(anyAccepted, (each) => {
      assert.deepEqual(decodeAccepted(received(each)), {
        outcome: 'payment',
        payment: each,
        traceparent,
      });
    }),
  );
});

test('a refund comes out of the topic as it went in', () => {
  fc.assert(
    fc.property(anyAcceptedRefund, (each) => {
      assert.deepEqual(decodeAccepted(received(each)), {
        outcome: 'follow-up',
        followUp: each,
        traceparent,
      });
    }),
  );
});

test('payment and refunds are keyed by the payment, so they stay in one partition, in order', () => {
  assert.equal(encodePaymentAccepted(payment, traceparent).key, payment.txnId);
  assert.equal(encodeFollowUpAccepted(refund, traceparent).key, refund.paymentId);
});

test('any bytes get an answer and never an exception', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.option(fc.uint8Array()), (value, key) => {
      const record = { key: key && Buffer.from(key), value: Buffer.from(value), headers: {} };
      assert.equal(decodeAccepted(record).outcome, 'refused');
    }),
  );
});

for (const accepted of [payment, refund]) {
  const record = received(accepted);
  const fields = JSON.parse(record.value!.toString()) as Record<string, unknown>;
  test(`any one field of a ${String(fields['kind'])} altered is refused or makes another under the same id`, () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(fields)), fc.jsonValue(), (name, value) => {
        const result = decodeAccepted(received(accepted, { [name]: value }));
        if (result.outcome === 'refused') return;
        const read = result.outcome === 'payment' ? result.payment : result.followUp;
        assert.equal(read.txnId, accepted.txnId);
      }),
    );
  });
}

const refused: readonly [what: string, reason: string, record: UndecodedRecord][] = [
  ['a null value', 'null_value', { ...received(payment), value: null }],
  [
    'a value above 256 KiB',
    'too_large',
    { ...received(payment), value: Buffer.alloc(262_145, ' ') },
  ],
  ['text', 'not_json', { ...received(payment), value: Buffer.from('hello') }],
  ['an empty value', 'not_json', { ...received(payment), value: Buffer.alloc(0) }],
  ['JSON that is no object', 'unknown_schema', { ...received(payment), value: Buffer.from('[1]') }],
  ['null as JSON', 'unknown_schema', { ...received(payment), value: Buffer.from('null') }],
  ['no version', 'unknown_schema', received(payment, { schema: undefined })],
  ['another version', 'unknown_schema', received(payment, { schema: 2 })],
  ['a version as text', 'unknown_schema', received(payment, { schema: '1' })],
  ['a missing amount', 'invalid_record', received(payment, { amount: undefined })],
  ['an amount of 0', 'invalid_record', received(payment, { amount: 0 })],
  ['no kind', 'invalid_record', received(payment, { kind: undefined })],
  ['an unknown kind', 'invalid_record', received(payment, { kind: 'chargeback' })],
  ['a kind that objects inherit', 'invalid_record', received(payment, { kind: 'constructor' })],
  ['a payment that says it is a refund', 'invalid_record', received(payment, { kind: 'refund' })],
  ['a refund that says it is a payment', 'invalid_record', received(refund, { kind: 'payment' })],
  ['an unknown field', 'invalid_record', received(payment, { surprise: 1 })],
  ['NUL in a text', 'invalid_record', received(payment, { reference: '\0' })],
  [
    'a date that is none',
    'invalid_record',
    received(payment, { accepted_at: '2026-13-40T00:00:00.000Z' }),
  ],
  ['a fingerprint that is none', 'invalid_record', received(payment, { fingerprint: 'x' })],
  [
    "another payment's id",
    'forged_id',
    received(payment, { idempotency_key: `${payment.key}2`.slice(-255) }),
  ],
  ['another record key', 'forged_id', { ...received(payment), key: Buffer.from('other') }],
  ['no record key', 'forged_id', { ...received(payment), key: null }],
  ["another partner's header", 'partner_mismatch', withHeader('partner_id', Buffer.from('globex'))],
  ['no partner header', 'partner_mismatch', withHeader('partner_id', undefined)],
  ['a partner header that is null', 'partner_mismatch', withHeader('partner_id', null)],
  [
    'two partner headers',
    'partner_mismatch',
    withHeader('partner_id', [Buffer.from(payment.partnerId), Buffer.from('globex')]),
  ],
  ['a refund of no payment', 'invalid_record', received(refund, { payment_id: undefined })],
  ['a refund of what is no id', 'invalid_record', received(refund, { payment_id: 'order-1' })],
  ['a refund of 0', 'invalid_record', received(refund, { amount: 0 })],
  ['a refund of a fraction', 'not_json', received(refund, { amount: 0.5 })],
  ['a refund with a currency', 'invalid_record', received(refund, { currency: 'EUR' })],
  ['a long reason', 'invalid_record', received(refund, { reason: 'r'.repeat(201) })],
  ['NUL in a reason', 'invalid_record', received(refund, { reason: '\0' })],
  [
    'a refund accepted at no date',
    'invalid_record',
    received(refund, { accepted_at: '2026-13-40T00:00:00.000Z' }),
  ],
  [
    "a refund under a payment's id",
    'forged_id',
    received(refund, { txn_id: idOfPaymentWithKey() }),
  ],
  [
    "another refund's id",
    'forged_id',
    received(refund, { idempotency_key: `${refund.key}2`.slice(-255) }),
  ],
  [
    'a refund keyed by itself',
    'forged_id',
    { ...received(refund), key: Buffer.from(refund.txnId) },
  ],
  ['a refund of another payment', 'forged_id', received(refund, { payment_id: payment.txnId })],
  ['a refund without a record key', 'forged_id', { ...received(refund), key: null }],
  [
    "a refund under another partner's header",
    'partner_mismatch',
    withHeader('partner_id', Buffer.from('globex'), refund),
  ],
];

for (const [what, reason, record] of refused) {
  test(`${what} is refused as ${reason}`, () => {
    const result = decodeAccepted(record);
    assert.equal(result.outcome === 'refused' && result.reason, reason);
    assert.ok(result.outcome === 'refused' && result.detail.length > 0);
  });
}

test('a record that names another partner throughout has another id, so nothing can be taken over', () => {
  const record = received(payment, { partner_id: 'globex' });
  const result = decodeAccepted({
    ...record,
    headers: { ...record.headers, partner_id: Buffer.from('globex') },
  });
  assert.equal(result.outcome === 'refused' && result.reason, 'forged_id');
});

test('a broken trace refuses no payment, and every copy of the record gets the same new one', () => {
  const traces = [undefined, Buffer.from('garbage'), [Buffer.from(traceparent)]].map((header) => {
    const result = decodeAccepted(withHeader('traceparent', header));
    return result.outcome === 'payment' ? result.traceparent : undefined;
  });
  assert.match(traces[0]!, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  assert.equal(new Set(traces).size, 1);
});

/** The record as a consumer gets it, with fields of its JSON replaced (`undefined` removes one). */
function received(
  accepted: AcceptedPayment | AcceptedFollowUp,
  changed: Record<string, unknown> = {},
): UndecodedRecord {
  const { key, value, headers } = encoded(accepted);
  const fields = { ...(JSON.parse(value.toString()) as object), ...changed };
  return {
    key: Buffer.from(key),
    value: Object.keys(changed).length === 0 ? value : Buffer.from(JSON.stringify(fields)),
    headers: {
      traceparent: Buffer.from(headers.traceparent),
      partner_id: Buffer.from(headers.partner_id),
    },
  };
}

function encoded(accepted: AcceptedPayment | AcceptedFollowUp): EncodedRecord {
  return 'paymentId' in accepted
    ? encodeFollowUpAccepted(accepted, traceparent)
    : encodePaymentAccepted(accepted, traceparent);
}

/** What a payment would be called that the refund's partner made with the refund's key. */
function idOfPaymentWithKey(): string {
  return deriveTxnId('payment', refund.partnerId, refund.key);
}

function withHeader(
  name: string,
  value: UndecodedRecord['headers'][string],
  accepted: AcceptedPayment | AcceptedFollowUp = payment,
): UndecodedRecord {
  const record = received(accepted);
  return { ...record, headers: { ...record.headers, [name]: value } };
}
