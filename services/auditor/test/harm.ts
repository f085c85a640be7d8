import { keyConflictEventOf, type PaymentEvent } from '@triplock/contracts';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import { succeededEvent, type System } from './whole-system.ts';

/** A payment and a partial refund of it that went all the way, to be harmed. */
export type Scene = {
  system: System;
  paid: AcceptedPayment;
  refund: AcceptedRefund;
  /** The events of the two. */
  paidEvent: PaymentEvent;
  refunded: PaymentEvent;
};

export async function aScene(system: System): Promise<Scene> {
  const paid = aPayment({ amount: 1_250n });
  const refund = aRefund(paid, { amount: 250n });
  await system.pay(paid);
  const refunded = await system.giveBack(refund, 2);
  return { system, paid, refund, paidEvent: succeededEvent(paid), refunded };
}

const loserOf = (winner: AcceptedPayment) =>
  aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });

/** Does harm, and tells the id that must be named for it. */
export type Sabotage = (scene: Scene) => Promise<string>;

/** Changes a transaction's row or rows; both kinds have checks of their own. */
const harm =
  (of: 'paid' | 'refund', statement: string): Sabotage =>
  async (scene) => {
    const { txnId } = scene[of];
    await scene.system.break(`${statement} WHERE txn_id = $1`, [txnId]);
    return txnId;
  };

/** Changes the rows of an event. */
const harmEvent =
  (of: 'paidEvent' | 'refunded', statement: string): Sabotage =>
  async (scene) => {
    const { event_id: eventId } = scene[of];
    await scene.system.break(`${statement} WHERE event_id = $1`, [eventId]);
    return eventId;
  };

const harmTransactions = (of: 'paid' | 'refund', change: string) =>
  harm(of, `UPDATE ledger.transactions SET ${change}`);

/** Harms the rows of both a payment and a refund, one at a time. */
const both = (statement: string) => [harm('paid', statement), harm('refund', statement)];
const bothEvents = (statement: string) => [
  harmEvent('paidEvent', statement),
  harmEvent('refunded', statement),
];

async function harmPayment({ system, paid }: Scene, statement: string): Promise<string> {
  await system.break(statement, [paid.txnId]);
  return paid.txnId;
}

/** For every check some things that it exists to see, done to what was well. */
export const sabotage: Record<string, readonly Sabotage[]> = {
  'accepted-lost': [
    async ({ system }) => {
      const times = `'2026-01-02T03:04:05Z', '2026-01-02T03:05:06Z'`;
      const lost = `
        INSERT INTO auditor.accepted_lost
          (lost_id, topic, kafka_partition, from_offset, to_offset, why, whole_at, found_at)
        OVERRIDING SYSTEM VALUE
        VALUES (4711, 'payments.accepted.v1', 3, 120, 123, 'dropped', ${times})`;
      await system.break(lost);
      return '4711/payments.accepted.v1/3/120-122/dropped/2026-01-02T03:04:05Z/2026-01-02T03:05:06Z';
    },
  ],
  'accepted-unaccounted': [
    async ({ system }) => {
      const lost = aPayment();
      await system.accept(lost);
      return lost.txnId;
    },
    async ({ system, paid }) => {
      const lost = aRefund(paid);
      await system.accept(lost);
      return lost.txnId;
    },
  ],
  'key-conflict-untold': [
    async ({ system, paid }) => {
      await system.deadLetter(await system.accept(loserOf(paid)), 'key_conflict');
      return paid.txnId;
    },
    async ({ system, paid, refund }) => {
      const loser = aRefund(paid, { key: refund.key, amount: 7n });
      await system.deadLetter(await system.accept(loser), 'key_conflict');
      return refund.txnId;
    },
  ],
  'key-conflict-unfounded': [
    async ({ system, paid }) => {
      const loser = loserOf(paid);
      await system.conflict(loser);
      return keyConflictEventOf(loser).event_id;
    },
  ],
  'refused-record-not-dead-lettered': [
    async ({ system }) => {
      const record = { ...system.record(aPayment()), value: null };
      await system.append([record]);
      return `${record.topic}/0/${record.offset}`;
    },
  ],
  'dead-letter-unfounded': [
    async ({ system }) => {
      const record = { ...system.record(aPayment()), value: null };
      await system.deadLetter(record, 'null_value');
      return `${record.topic}/0/${record.offset}`;
    },
  ],
  'ledger-not-accepted': [
    async ({ system }) => {
      const invented = aPayment();
      await system.post(invented);
      return invented.txnId;
    },
    async ({ system, paid }) => {
      const invented = aRefund(paid);
      await system.postRefund(invented, 3);
      return invented.txnId;
    },
  ],
  'ledger-unfinished': [
    async ({ system }) => {
      const pending = aPayment();
      await system.begin(pending);
      return pending.txnId;
    },
    async ({ system }) => {
      const early = aRefund(aPayment());
      await system.beginRefund(early);
      return early.txnId;
    },
  ],
  'card-unfinished': [
    async ({ system }) => {
      const asked = aPayment({ paymentMethod: 'pm_card_visa' });
      await system.begin(asked);
      await system.storeIntent(asked, 'pi-unconfirmed');
      return asked.txnId;
    },
    async ({ system }) => {
      const asked = aPayment({ paymentMethod: 'pm_card_visa' });
      await system.begin(asked);
      await system.storeIntent(asked, 'pi-unconfirmed');
      const behind = aRefund(asked);
      await system.beginRefund(behind);
      return behind.txnId;
    },
  ],
  'refund-at-bank': [
    harmTransactions(
      'refund',
      `state = 'pending', settled_at = NULL, due_at = now(), provider_refund_id = 're-accepted'`,
    ),
  ],
  'event-unpublished': [
    async ({ system }) => {
      const quiet = aPayment();
      await system.post(quiet);
      return succeededEvent(quiet).event_id;
    },
  ],
  'published-unseen': bothEvents('DELETE FROM auditor.published'),
  'inbox-missing': bothEvents('DELETE FROM notifier.inbox'),
  'delivery-waiting': bothEvents(
    `UPDATE notifier.deliveries SET state = 'pending', finished_at = NULL`,
  ),
  'ledger-differs-from-accepted': [
    harmTransactions('paid', 'amount = amount + 1'),
    harmTransactions('paid', `partner_id = 'globex'`),
    harmTransactions('refund', 'requested_amount = NULL'),
    harmTransactions('refund', 'amount = amount + 1'),
    harmTransactions('refund', 'payment_id = gen_random_uuid()'),
  ],
  'ledger-id-underived': both(`UPDATE ledger.transactions SET idempotency_key = gen_random_uuid()`),
  'entry-differs-from-ledger': [
    ...both('DELETE FROM ledger.entries'),
    ...both('UPDATE ledger.entries SET amount = amount + 1'),
    // The money goes the wrong way.
    ...both(
      'UPDATE ledger.entries SET debit_account = credit_account, credit_account = debit_account',
    ),
  ],
  'refunded-differs-from-refunds': [
    harmTransactions('paid', 'amount_refunded = amount_refunded - 1'),
    harmTransactions('paid', 'refund_reserved = refund_reserved + 1'),
    async (scene) => {
      await harmTransactions('refund', 'amount = amount + 1')(scene);
      return scene.paid.txnId;
    },
  ],
  'refund-unfounded': [
    harmTransactions('refund', 'payment_id = gen_random_uuid()'),
    harmTransactions('refund', `currency = 'USD'`),
    harmTransactions('refund', `partner_id = 'globex'`),
  ],
  'event-differs-from-ledger': both('DELETE FROM ledger.outbox'),
  'event-tells-otherwise': [
    ...['paid', 'refund'].map((of): Sabotage => async (scene) => {
      const event = of === 'paid' ? scene.paidEvent : scene.refunded;
      await scene.system.break(
        `UPDATE ledger.outbox SET payload = replace(payload, '250,', '251,') WHERE event_id = $1`,
        [event.event_id],
      );
      return event.event_id;
    }),
    harmEvent('refunded', 'UPDATE ledger.outbox SET payment_id = gen_random_uuid()'),
    async (scene) => {
      await harmTransactions('refund', 'payment_id = gen_random_uuid()')(scene);
      return scene.refunded.event_id;
    },
  ],
  'sequence-has-a-gap': [
    (scene) =>
      harmPayment(scene, 'UPDATE ledger.outbox SET sequence = sequence + 10 WHERE payment_id = $1'),
    (scene) =>
      harmPayment(
        scene,
        'UPDATE ledger.outbox SET sequence = sequence * 2 - 1 WHERE payment_id = $1',
      ),
  ],
  'ledger-history-changed': [
    async ({ system, paid }) => {
      const differs = `INSERT INTO ledger.copy_differences (kind, id) VALUES ('transaction', $1)`;
      await system.break(differs, [paid.txnId]);
      return `transaction ${paid.txnId}`;
    },
  ],
  'event-parked': bothEvents(
    `UPDATE ledger.outbox SET state = 'parked', parked_reason = 'too large',
     published_at = NULL, published_epoch = NULL`,
  ),
  'published-unfounded': [
    async ({ system }) => {
      const forged = succeededEvent(aPayment());
      await system.see(forged);
      return forged.event_id;
    },
  ],
  'published-differs-from-outbox': bothEvents(
    `UPDATE auditor.published SET payload_hash = 'another'`,
  ),
  'published-altered': [
    async ({ system, refunded }) => {
      await system.see({ ...refunded, timestamp: '2020-01-01T00:00:00.000Z' });
      return refunded.event_id;
    },
  ],
  'inbox-unfounded': [
    async ({ system }) => {
      const forged = succeededEvent(aPayment());
      await system.notify(forged);
      return forged.event_id;
    },
    async ({ system }) => {
      const forged = succeededEvent(aPayment());
      await system.addUp(forged);
      return forged.event_id;
    },
    ...['notifier', 'settlement'].map((schema) =>
      harmEvent('paidEvent', `UPDATE ${schema}.inbox SET payload_hash = 'another'`),
    ),
  ],
  'inbox-altered': [
    async ({ system, paidEvent }) => {
      await system.notify({ ...paidEvent, timestamp: '2020-01-01T00:00:00.000Z' });
      return paidEvent.event_id;
    },
    async ({ system, refunded }) => {
      await system.addUp({ ...refunded, timestamp: '2020-01-01T00:00:00.000Z' });
      return refunded.event_id;
    },
  ],
  'cursor-differs-from-inbox': [
    (scene) =>
      harmPayment(scene, 'UPDATE notifier.cursors SET last_sequence = 3 WHERE ordering_key = $1'),
  ],
  'delivery-differs-from-inbox': bothEvents('DELETE FROM notifier.deliveries'),
  'delivery-tells-otherwise': [
    ...bothEvents(`UPDATE notifier.deliveries SET partner_id = 'globex'`),
    ...bothEvents(`UPDATE notifier.deliveries SET body = replace(body, '250,', '251,')`),
  ],
  'delivery-given-up': bothEvents(`UPDATE notifier.deliveries SET state = 'failed'`),
};
