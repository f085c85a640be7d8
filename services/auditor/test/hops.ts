import { createHash } from 'node:crypto';
import {
  encodePaymentEvent,
  eventOf,
  paymentEventOf,
  followUpEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import { openInbox, type Effect, type ReceivedEvent } from '@triplock/inbox';
import { authorizedEvent, type Ledger, type FollowUps } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp, EventId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import { providerOf } from '@triplock/providers';
import type { TestDatabase } from '@triplock/testing';
import { settledAt } from '@triplock/testing/test';
import { recordPublished } from '../published.ts';
import { auditedConsumers } from './consumers.ts';

export const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** The database as each owner sees it. */
export type Owners = ReturnType<typeof ownersOf>;

/** Opens a test's database as each owner, and as one who may do anything. */
export function ownersOf(store: TestDatabase) {
  return {
    ledger: store.open('triplock_ledger'),
    dispatcher: store.open('triplock_dispatcher'),
    notifier: store.open('triplock_notifier'),
    auditor: store.open('triplock_auditor'),
    admin: store.open(),
    /** Of every consumer by its name. */
    consumers: new Map<string, Database>(
      auditedConsumers.map(({ name, schema }) => [name, store.open(`triplock_${schema}`)]),
    ),
  };
}

/** What the subscribers do with an event. */
export function eventHops(owners: Owners) {
  const hops = new Map<string, ReturnType<typeof inboxHop>>(
    auditedConsumers.map(({ name, effect }) => [
      name,
      inboxHop(owners.consumers.get(name)!, name, effect),
    ]),
  );
  const consume = (consumer: string, event: PaymentEvent) => hops.get(consumer)!(event);
  return {
    consume,
    /** Gives it to all of them. */
    consumeAll: async (event: PaymentEvent) => {
      for (const consumer of hops.keys()) await consume(consumer, event);
    },
    see: (event: PaymentEvent) => recordPublished(owners.auditor, [received(event)]),
    notify: (event: PaymentEvent) => consume('partner-notifier', event),
    deliver: (eventId: EventId) => owners.notifier.query(deliverSql, [eventId]),
    /**
     * Leaves a delivery as one that its partner's server refused once and that is tried again, as
     * one that has nowhere to go, or as one that was given up. Each has waited for nine days.
     */
    failToDeliver: async (eventId: string, state: 'pending' | 'parked' | 'failed') => {
      const parameters = [eventId, state];
      await owners.admin.query(refuseSql, parameters);
      await owners.admin.query(failSql, parameters);
    },
  };
}

/** What a consumer does with an event, behind its inbox. */
function inboxHop(database: Database, consumer: string, effect: Effect<PaymentEvent>) {
  const inbox = openInbox(database, consumer);
  return async (event: PaymentEvent) => {
    const [outcome] = await inbox.receive([received(event)], effect);
    return outcome!;
  };
}

/** What the sender does about a webhook that arrives at the first attempt. */
const deliverSql = `
  WITH delivered AS (
    UPDATE webhooks.deliveries SET
      state = 'delivered', attempts = 1, first_attempt_at = now(), finished_at = now(),
      last_outcome = 'delivered', last_status = 200
    WHERE event_id = $1
    RETURNING event_id
  )
  INSERT INTO webhooks.delivery_attempts (event_id, attempt, status, took_ms)
  SELECT event_id, 1, 200, 5 FROM delivered`;

/** Its attempt was refused, or there was none because it was parked. */
const refuseSql = `
  WITH parked AS (
    DELETE FROM webhooks.delivery_attempts WHERE event_id = $1 AND $2 = 'parked'
  )
  UPDATE webhooks.delivery_attempts
  SET status = 500, error = 'answered 500', recorded_at = now() - interval '9 days'
  WHERE event_id = $1 AND $2 <> 'parked'`;
const failSql = `
  UPDATE webhooks.deliveries SET
    state = $2, attempts = 1, first_attempt = 1, created_at = now() - interval '9 days',
    first_attempt_at = now() - interval '9 days',
    next_attempt_at = CASE $2 WHEN 'parked' THEN now() - interval '9 days'
                              ELSE now() + interval '1 hour' END,
    finished_at = CASE $2 WHEN 'failed' THEN last.recorded_at END,
    last_outcome = CASE WHEN last.status IS NOT NULL THEN 'refused' END,
    last_status = last.status, last_error = last.error
  FROM (SELECT $1::uuid AS event_id) AS harmed
  LEFT JOIN webhooks.delivery_attempts AS last USING (event_id)
  WHERE deliveries.event_id = harmed.event_id`;

/** An event as an inbox gets it. */
function received(event: PaymentEvent): ReceivedEvent<PaymentEvent> {
  const { payload } = encodePaymentEvent(event);
  return { ...eventOf(event), payloadHash: createHash('sha256').update(payload).digest('hex') };
}

/** What the worker does about cards, but for asking the provider. */
export function cardHops(ledger: Ledger, refunds: FollowUps) {
  const result = { state: 'succeeded' } as const;
  return {
    storeIntent: async ({ txnId, details }: AcceptedPayment, intentId: string) => {
      const { version } = (await ledger.find(txnId))!;
      const provider = providerOf(details)!;
      return ledger.storeIntent({ txnId, version, provider, intentId });
    },
    settleCharge: async (payment: AcceptedPayment, chargeId: string): Promise<PaymentEvent> => {
      const { txnId } = payment;
      const { version } = (await ledger.find(txnId))!;
      const end = { result, chargeId, settledAt: settledAt(payment), traceparent };
      await ledger.settle({ txnId, version, ...end });
      return paymentEventOf((await ledger.find(txnId))!, 'payment.succeeded', 1);
    },
    settleRefund: async (
      refund: AcceptedFollowUp,
      { sequence, refundId }: { sequence: number; refundId: string },
    ): Promise<PaymentEvent> => {
      const { txnId, paymentId } = refund;
      const { version } = (await refunds.find(txnId))!;
      const end = { result, refundId, settledAt: settledAt(refund), traceparent };
      await refunds.settle({ txnId, version, ...end });
      const settled = (await refunds.find(txnId))!;
      return followUpEventOf({ followUp: settled, orderedBy: paymentId, sequence });
    },
    /** A refund that the provider refused, by its own id. */
    failRefund: async ({ txnId, acceptedAt }: AcceptedFollowUp, refundId: string) => {
      const { version } = (await refunds.find(txnId))!;
      const failure = { code: 'declined', message: 'no' };
      const end = { result: { state: 'failed', failure }, refundId } as const;
      await refunds.settle({
        ...end,
        txnId,
        version,
        settledAt: settledAt({ acceptedAt }),
        traceparent,
      });
    },
    /** A card that ends without money: it failed, or what it held was let go. */
    endCard: async (payment: AcceptedPayment, state: 'failed' | 'canceled') => {
      const { txnId } = payment;
      const { version } = (await ledger.find(txnId))!;
      const failure = { code: 'payment_canceled', message: 'no' };
      const end = { result: { state, failure }, settledAt: settledAt(payment), traceparent };
      await ledger.settle({ txnId, version, ...end });
    },
    /** Notes that the money of a posted card is held, and tells of it. */
    authorize: async ({ txnId }: AcceptedPayment, intentId: string): Promise<PaymentEvent> => {
      const { version } = (await ledger.find(txnId))!;
      await ledger.storeIntent({ txnId, version, provider: 'stripe', intentId });
      await ledger.authorize({ txnId, version: version + 1, traceparent, hold: 'stands' });
      return authorizedEvent((await ledger.find(txnId))!, 1);
    },
    /** Settles a capture with its payment, and tells of both. */
    settleCapture: async (capture: AcceptedFollowUp, chargeId: string): Promise<PaymentEvent[]> => {
      const { txnId, paymentId } = capture;
      const { version, money } = (await refunds.find(txnId))!;
      const captured = { state: 'captured', amount: money!.amount } as const;
      const end = { result, settledAt: settledAt(capture), traceparent };
      await refunds.settle({ txnId, version, ...end, payment: { result: captured, chargeId } });
      const refund = (await refunds.find(txnId))!;
      const payment = (await ledger.find(paymentId))!;
      return [
        followUpEventOf({ followUp: refund, orderedBy: paymentId, sequence: 2 }),
        paymentEventOf(payment, 'payment.captured', 3),
      ];
    },
  };
}
