import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { Payment } from '@triplock/payments';
import fc from 'fast-check';
import { anyAccepted, anySettled } from '../test/arbitrary-transactions.ts';
import {
  decodePaymentEvent,
  encodePaymentEvent,
  keyConflictEventOf,
  paymentEventOf,
  type PaymentEvent,
  type UndecodedEvent,
} from './payment-event.ts';

const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const settled = fc.sample(anySettled, { numRuns: 1, seed: 1 })[0]!;
const event = endOf(settled);

const anyEvent = fc.oneof(anySettled.map(endOf), anyAccepted.map(keyConflictEventOf));

test('an event comes out of the topic as it went in', () => {
  fc.assert(
    fc.property(anyEvent, (each) => {
      const message = published(each);
      assert.deepEqual(decodePaymentEvent(message), {
        outcome: 'event',
        event: each,
        payload: message.data,
        payloadHash: createHash('sha256').update(message.data).digest('hex'),
        traceparent,
      });
    }),
  );
});

test('making an event again makes the same bytes', () => {
  fc.assert(
    fc.property(anySettled, (payment) => {
      const copy = structuredClone(payment);
      assert.equal(
        encodePaymentEvent(endOf(copy)).payload,
        encodePaymentEvent(endOf(payment)).payload,
      );
    }),
  );
});

test('a pending payment has no event yet', () => {
  const pending: Payment = { ...settled, state: 'pending', settledAt: null };
  assert.throws(() => paymentEventOf(pending, 'payment.succeeded', 1), /not settled/);
});

test('each loser of a key conflict has an event of its own, however often it is redelivered', () => {
  const loser = { ...settled, fingerprint: 'f'.repeat(64) as Payment['fingerprint'] };
  const again = keyConflictEventOf(loser);
  assert.deepEqual(keyConflictEventOf(structuredClone(loser)), again);
  assert.notEqual(keyConflictEventOf(settled).event_id, again.event_id);
  assert.equal(again.sequence, undefined);
});

test('any message gets an answer and never an exception', () => {
  const attributes = fc.dictionary(
    fc.constantFrom(...Object.keys(published(event).attributes)),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.uint8Array(), attributes, (data, each) => {
      const result = decodePaymentEvent({ data: Buffer.from(data), attributes: each });
      assert.equal(result.outcome, 'refused');
    }),
  );
});

const other = '37585521-60c9-8d90-a37f-2e1b8a7081e6';
const refused: readonly [what: string, reason: string, message: UndecodedEvent][] = [
  ...['event_id', 'event_type', 'txn_id', 'payment_id'].flatMap(
    (name): [string, string, UndecodedEvent][] => [
      [`no attribute ${name}`, 'missing_attributes', withAttributes({ [name]: undefined })],
      [`an empty attribute ${name}`, 'missing_attributes', withAttributes({ [name]: '' })],
    ],
  ),
  ['an unknown type', 'unknown_type', withAttributes({ event_type: 'payment.exploded' })],
  [
    'another type than the payload',
    'invalid_event',
    withAttributes({ event_type: 'refund.failed' }),
  ],
  ['another sequence than the payload', 'invalid_event', withAttributes({ sequence: '2' })],
  ['another event_id than the payload', 'invalid_event', withAttributes({ event_id: other })],
  ['another payment than the payload', 'invalid_event', withAttributes({ payment_id: other })],
  ['a payload that is not JSON', 'invalid_event', { ...published(event), data: Buffer.from('{') }],
  ['an empty payload', 'invalid_event', { ...published(event), data: Buffer.alloc(0) }],
  ['another version', 'invalid_event', withFields({ schema: 2 })],
  ['an unknown field', 'invalid_event', withFields({ surprise: 1 })],
  ['no sequence', 'invalid_event', published({ ...event, sequence: undefined })],
  [
    'data of another transaction',
    'invalid_event',
    withFields({ data: { ...event.data, id: other } }),
  ],
  [
    'data without an amount',
    'invalid_event',
    withFields({ data: { id: event.txn_id, object: 'payment' } }),
  ],
  [
    'an event_id of another event',
    'forged_id',
    published({ ...event, event_id: other as PaymentEvent['event_id'] }),
  ],
];

for (const [what, reason, message] of refused) {
  test(`${what} is refused as ${reason}`, () => {
    const result = decodePaymentEvent(message);
    assert.equal(result.outcome === 'refused' && result.reason, reason);
  });
}

test('an altered copy of a known event is read with another hash, so that the inbox can tell', () => {
  const altered = published({ ...event, data: { ...event.data, amount: 7 } });
  const [first, second] = [published(event), altered].map(decodePaymentEvent);
  assert.equal(first?.outcome, 'event');
  assert.equal(second?.outcome, 'event');
  assert.notEqual(
    first?.outcome === 'event' && first.payloadHash,
    second?.outcome === 'event' && second.payloadHash,
  );
});

test('a missing trace refuses no event', () => {
  const result = decodePaymentEvent(withAttributes({ traceparent: undefined }));
  assert.match(
    result.outcome === 'event' ? result.traceparent : '',
    /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/,
  );
});

function endOf(payment: Payment): PaymentEvent {
  return paymentEventOf(payment, payment.failure ? 'payment.failed' : 'payment.succeeded', 1);
}

function published(each: PaymentEvent): UndecodedEvent {
  const { payload, attributes } = encodePaymentEvent(each);
  return { data: Buffer.from(payload), attributes: { ...attributes(traceparent) } };
}

/** The event with fields of its payload replaced; the attributes stay as they were. */
function withFields(changed: Record<string, unknown>): UndecodedEvent {
  return { ...published(event), data: Buffer.from(JSON.stringify({ ...event, ...changed })) };
}

function withAttributes(
  changed: Record<string, string | undefined>,
  fields: Record<string, unknown> = {},
): UndecodedEvent {
  const { data, attributes } = withFields(fields);
  return { data, attributes: { ...attributes, ...changed } };
}
