import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import fc from 'fast-check';
import { anyAccepted } from '../arbitrary-payment.testing.ts';
import { decodePaymentAccepted, type UndecodedRecord } from './decode-payment-accepted.ts';
import { encodePaymentAccepted } from './encode-payment-accepted.ts';

const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const payment = fc.sample(anyAccepted, { numRuns: 1, seed: 1 })[0]!;

test('a payment comes out of the topic as it went in', () => {
  fc.assert(
    fc.property(anyAccepted, (each) => {
      assert.deepEqual(decodePaymentAccepted(received(each)), {
        outcome: 'payment',
        payment: each,
        traceparent,
      });
    }),
  );
});

test('the record is keyed by its transaction, so one payment stays in one partition', () => {
  assert.equal(encodePaymentAccepted(payment, traceparent).key, payment.txnId);
});

test('any bytes get an answer and never an exception', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.option(fc.uint8Array()), (value, key) => {
      const record = { key: key && Buffer.from(key), value: Buffer.from(value), headers: {} };
      assert.equal(decodePaymentAccepted(record).outcome, 'refused');
    }),
  );
});

test('any one field altered is refused or makes another payment under the same id', () => {
  const fields = JSON.parse(received(payment).value!.toString()) as Record<string, unknown>;
  fc.assert(
    fc.property(fc.constantFrom(...Object.keys(fields)), fc.jsonValue(), (name, value) => {
      const result = decodePaymentAccepted(received(payment, { [name]: value }));
      if (result.outcome === 'payment') assert.equal(result.payment.txnId, payment.txnId);
    }),
  );
});

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
  ['another kind', 'invalid_record', received(payment, { kind: 'refund' })],
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
  [
    'two partner headers',
    'partner_mismatch',
    withHeader('partner_id', [Buffer.from(payment.partnerId), Buffer.from('globex')]),
  ],
];

for (const [what, reason, record] of refused) {
  test(`${what} is refused as ${reason}`, () => {
    const result = decodePaymentAccepted(record);
    assert.equal(result.outcome === 'refused' && result.reason, reason);
    assert.ok(result.outcome === 'refused' && result.detail.length > 0);
  });
}

test('a record that names another partner throughout has another id, so nothing can be taken over', () => {
  const record = received(payment, { partner_id: 'globex' });
  const result = decodePaymentAccepted({
    ...record,
    headers: { ...record.headers, partner_id: Buffer.from('globex') },
  });
  assert.equal(result.outcome === 'refused' && result.reason, 'forged_id');
});

test('a broken trace refuses no payment, and every copy of the record gets the same new one', () => {
  const traces = [undefined, Buffer.from('garbage'), [Buffer.from(traceparent)]].map((header) => {
    const result = decodePaymentAccepted(withHeader('traceparent', header));
    return result.outcome === 'payment' ? result.traceparent : undefined;
  });
  assert.match(traces[0]!, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  assert.equal(new Set(traces).size, 1);
});

/** The record as a consumer gets it, with fields of its JSON replaced (`undefined` removes one). */
function received(
  accepted: AcceptedPayment,
  changed: Record<string, unknown> = {},
): UndecodedRecord {
  const { key, value, headers } = encodePaymentAccepted(accepted, traceparent);
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

function withHeader(name: string, value: UndecodedRecord['headers'][string]): UndecodedRecord {
  const record = received(payment);
  return { ...record, headers: { ...record.headers, [name]: value } };
}
