import {
  bucketCount,
  encodePaymentEvent,
  paymentEventOf,
  paymentEventSchema,
  type PaymentEvent,
} from '@triplock/contracts';
import { bucketOf, deriveEventId, type AcceptedPayment, type EventId } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { aRefund } from './builders.ts';

/** The event of a payment that succeeded, for tests. */
export function succeeded(payment: AcceptedPayment): PaymentEvent {
  const settled = {
    version: 1,
    amountRefunded: 0n,
    settledAt: new Date('2026-01-02T03:04:05.678Z'),
  };
  return paymentEventOf({ ...payment, state: 'succeeded', ...settled }, 'payment.succeeded', 1);
}

/** A message as a subscriber gets it. */
type IncomingMessage = {
  id: string;
  data: Buffer;
  attributes: Readonly<Record<string, string>>;
  orderingKey: string;
  deliveryAttempt: number;
  publishTime: Date;
};

let messages = 0;

/** An event as Pub/Sub delivers it, each time under a message id of its own. */
export function messageOf(
  event: PaymentEvent,
  changes: Partial<IncomingMessage> = {},
): IncomingMessage {
  const { payload, attributes } = encodePaymentEvent(event);
  messages += 1;
  return {
    id: `message-${messages}`,
    data: Buffer.from(payload),
    attributes: attributes('00-11111111111111111111111111111111-2222222222222222-01'),
    orderingKey: '7',
    deliveryAttempt: 1,
    publishTime: new Date(),
    ...changes,
  };
}

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

const insertSql = `
  INSERT INTO ledger.outbox (
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
  ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`;

/**
 * Puts events of a payment into the outbox, as the role of the ledger: that it succeeded, with
 * sequence 1, and one refund for each further sequence. The ledger's rows are not made. Returns
 * their ids in the order of `sequences`.
 */
export async function seedEvents(
  database: Queryable,
  payment: AcceptedPayment,
  sequences: readonly number[],
): Promise<EventId[]> {
  const ids: EventId[] = [];
  for (const sequence of sequences) {
    const refund = aRefund(payment, { key: `${payment.key}-refund-${sequence}` });
    const { txnId, partnerId } = sequence === 1 ? payment : refund;
    const type = sequence === 1 ? 'payment.succeeded' : 'refund.succeeded';
    const { amount, currency } = payment.details.money;
    const event = {
      schema: paymentEventSchema,
      event_id: deriveEventId(txnId, type),
      partner_id: partnerId,
      txn_id: txnId,
      payment_id: payment.txnId,
      type,
      timestamp: new Date().toISOString(),
      sequence,
      data: { id: txnId, object: type.split('.')[0], amount: Number(amount), currency },
    } as const;
    const bucket = bucketOf(payment.txnId, bucketCount);
    const row = [event.event_id, type, txnId, payment.txnId, partnerId, bucket, sequence];
    await database.query(insertSql, [...row, encodePaymentEvent(event).payload, traceparent]);
    ids.push(event.event_id);
  }
  return ids;
}
