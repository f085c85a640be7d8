import {
  encodePaymentAccepted,
  encodePaymentEvent,
  keyConflictEventOf,
  paymentEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import { openInbox } from '@triplock/inbox';
import { openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment, EventId, TxnId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import { createMetrics } from '@triplock/runtime';
import type { Offsets, ReceivedRecord, TopicOffsets } from '@triplock/transport';
import { createHash } from 'node:crypto';
import { auditorMetrics } from './metrics.ts';
import { recordAcceptedBatch } from './record-accepted.ts';
import { recordDeadLetterBatch } from './record-dead-letters.ts';
import { recordPublished } from './record-published.ts';

/** The database as each owner sees it. */
export type Owners = { ledger: Database; notifier: Database; auditor: Database; admin: Database };

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
export const acceptedTopic = 'payments.accepted.v1';

/** Does to the stores what the services do, one hop at a time, so that a test may leave one out. */
export function wholeSystem({ ledger, notifier, auditor, admin }: Owners) {
  const metrics = auditorMetrics(createMetrics('test'));
  const postgresLedger = openPostgresLedger(ledger);
  const inbox = openInbox(notifier, 'partner-notifier');
  let offset = 0n;

  const record = (payment: AcceptedPayment): ReceivedRecord => {
    const { key, value, headers } = encodePaymentAccepted(payment, traceparent);
    offset += 1n;
    return {
      topic: acceptedTopic,
      partition: 0,
      offset,
      key: Buffer.from(key),
      value,
      headers: {
        traceparent: Buffer.from(headers.traceparent),
        partner_id: Buffer.from(headers.partner_id),
      },
      timestamp: '0',
    };
  };
  const deadLetter = async (dead: ReceivedRecord, reason: string) => {
    const headers = {
      ...dead.headers,
      'dead-letter.reason': Buffer.from(reason),
      'dead-letter.topic': Buffer.from(dead.topic),
      'dead-letter.partition': Buffer.from(String(dead.partition)),
      'dead-letter.offset': Buffer.from(String(dead.offset)),
    };
    const letter = { ...dead, topic: 'payments.dead-letter.v1', offset: 0n, headers };
    await recordDeadLetterBatch(auditor, metrics)({ records: [letter] });
  };
  const system = {
    record,
    deadLetter,
    accept: async (payment: AcceptedPayment) => {
      const accepted = record(payment);
      await recordAcceptedBatch(auditor, metrics)({ records: [accepted] });
      return accepted;
    },
    append: (records: readonly ReceivedRecord[]) =>
      recordAcceptedBatch(auditor, metrics)({ records }),
    post: (payment: AcceptedPayment) =>
      postgresLedger.post([
        {
          payment,
          traceparent,
          settlement: { result: { state: 'succeeded' }, settledAt: settledAt(payment) },
        },
      ]),
    begin: (payment: AcceptedPayment) => postgresLedger.post([{ payment, traceparent }]),
    conflict: (payment: AcceptedPayment) =>
      postgresLedger.recordKeyConflict({ payment, traceparent }),
    mark: (eventId: EventId) =>
      admin.query(
        `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1
         WHERE event_id = $1`,
        [eventId],
      ),
    see: (event: PaymentEvent) => recordPublished(auditor, { event, payloadHash: hashOf(event) }),
    notify: (event: PaymentEvent) =>
      inbox.receive({ event, payloadHash: hashOf(event) }, async (tx) => {
        const { type, timestamp, sequence, data } = event;
        const body = JSON.stringify({ type, timestamp, sequence, data });
        await tx.query(
          `INSERT INTO deliveries (event_id, partner_id, txn_id, body) VALUES ($1, $2, $3, $4)`,
          [event.event_id, event.partner_id, event.txn_id, body],
        );
      }),
    deliver: (eventId: EventId) =>
      notifier.query(
        `UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE event_id = $1`,
        [eventId],
      ),
    publish: async (event: PaymentEvent) => {
      await system.mark(event.event_id);
      await system.see(event);
      await system.notify(event);
      await system.deliver(event.event_id);
    },
    /** A payment that went all the way. */
    pay: async (payment: AcceptedPayment) => {
      await system.accept(payment);
      await system.post(payment);
      await system.publish(eventOf(payment));
      return payment.txnId as TxnId;
    },
    /** A request that lost its key, all the way. */
    loseKey: async (payment: AcceptedPayment) => {
      const accepted = await system.accept(payment);
      await system.conflict(payment);
      await system.deadLetter(accepted, 'key_conflict');
      await system.publish(keyConflictEventOf(payment));
    },
  };
  return system;
}

/** The event of a payment that succeeded. */
export function eventOf(payment: AcceptedPayment): PaymentEvent {
  const settled = { version: 1, amountRefunded: 0n, settledAt: settledAt(payment) };
  return paymentEventOf({ ...payment, state: 'succeeded', ...settled }, 'payment.succeeded', 1);
}

/** Offsets of a topic with one partition whose consumer is so many records behind. */
export function lagOf(records: number): TopicOffsets {
  const at = (offset: number): Offsets => new Map([[0, BigInt(offset)]]);
  return {
    end: async () => at(100),
    committed: async () => at(100 - records),
    close: async () => undefined,
  };
}

function settledAt(payment: AcceptedPayment): Date {
  return new Date(payment.acceptedAt.getTime() + 5);
}

function hashOf(event: PaymentEvent): string {
  return createHash('sha256').update(encodePaymentEvent(event).payload).digest('hex');
}
