import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { aPayment } from '@triplock/testing';
import { renderTrace } from './print-trace.ts';
import type { PaymentTrace } from './trace-payment.ts';

const at = (ms: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, 5, ms));

/** A payment whose inbox row is older than the auditor's look, and whose claim has left. */
function aTrace(): PaymentTrace {
  const event = {
    eventId: 'e',
    type: 'payment.succeeded',
    sequence: 1,
    createdAt: at(20),
    state: 'published',
    publishedAt: at(30),
    copies: 1,
    altered: 0,
    firstSeenAt: at(41),
    lastSeenAt: at(41),
    inboxRows: 1,
    receivedAt: at(40),
    delivery: 'delivered',
    attempts: 1,
    deliveredAt: at(52),
  };
  return {
    txnId: aPayment().txnId,
    claims: 'redis',
    claim: undefined,
    kafka: {
      partition: 3,
      records: [{ offset: '7', at: at(10), bytes: 1 }],
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
  };
}

test('a claim that is gone is told by the store that it was in', () => {
  const lineOf = (trace: PaymentTrace) => {
    const lines = renderTrace(trace).map(stripVTControlCharacters);
    return lines.find((line) => line.includes('guard 1 claim'))!;
  };
  assert.match(lineOf(aTrace()), /none in Redis: expired or forgotten/);
  assert.match(lineOf({ ...aTrace(), claims: 'dynamodb' }), /none in DynamoDB: expired/);
});

test('a trace is in order of time, and what has no time stays behind the layer before it', () => {
  const [, , , ...rows] = renderTrace(aTrace()).map(stripVTControlCharacters);
  const layers = rows.map((row) => row.slice(row.search(/guard|Kafka|outbox|Pub|deliv|webhook/)));
  assert.deepEqual(
    layers.map((layer) => layer.split(/ {2,}/)[0]),
    [
      'guard 1 claim',
      'Kafka',
      'guard 2 ledger',
      'outbox',
      'guard 3 inbox',
      'Pub/Sub',
      'webhook',
      'delivery',
    ],
  );
  const times = rows.map((row) => row.slice(0, 12).trim()).filter((time) => /^\d/.test(time));
  assert.deepEqual(times, [...times].sort());
});
