import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  deriveDisputeEventId,
  type AcceptedPayment,
  type AcceptedFollowUp,
} from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import type * as harm from '@triplock/testing/test';
import type { System } from './whole-system.ts';

/** What the auditor's own harms are of: a system of which they know every hop. */
export type Harm = harm.Harm<System>;
export type Rows = harm.Rows<System>;

/** What the journal has of the provider, without the provider having it. */
export async function bookAtProvider(
  system: System,
  row: {
    kind: 'intent' | 'charge' | 'refund' | 'dispute';
    of: AcceptedPayment | AcceptedFollowUp;
    intentId: string;
    amount?: number;
  },
): Promise<string> {
  const id = row.kind === 'intent' ? row.intentId : `${row.kind}-${randomUUID()}`;
  // A dispute is made by the customer's bank, and carries nothing of ours.
  const isOurs = row.kind !== 'dispute';
  const { txnId, partnerId } = isOurs ? row.of : { txnId: null, partnerId: null };
  const money = [row.amount ?? 1_250, 'EUR'];
  await system.break(
    `INSERT INTO auditor.provider_journal
       (provider, kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
     VALUES ('stripe', $1, $2, 'succeeded', $3, $4, now(), $5, $6, $7)`,
    [row.kind, id, ...money, row.intentId, txnId, partnerId],
  );
  return id;
}

/** A card payment and a partial refund of it, both in the journal and in the ledger. */
export async function aCardScene(system: System) {
  const paid = aPayment({ paymentMethod: 'pm_card_visa', amount: 1_250n });
  const refund = aRefund(paid, { amount: 250n });
  const intentId = `pi-${randomUUID()}`;
  let chargeId = '';
  let refundId = '';
  await system.payByCard(paid, async (hold) => {
    await bookAtProvider(system, { kind: 'intent', of: paid, intentId });
    await hold(intentId);
    return (chargeId = await bookAtProvider(system, { kind: 'charge', of: paid, intentId }));
  });
  await system.giveBackByCard(refund, async () => {
    return (refundId = await bookAtProvider(system, {
      kind: 'refund',
      of: refund,
      intentId,
      amount: 250,
    }));
  });
  return { paid, refund, intentId, chargeId, refundId };
}

/**
 * A card payment that is disputed, twice, and lost: the ledger's row of the second dispute, or the
 * provider's, and what an audit names.
 */
export function disputed(of: 'ledger' | 'provider' | 'outbox', named: DisputePart): Rows {
  return {
    by: { ledger: 'dispute_id', provider: 'id', outbox: 'event_id' }[of],
    find: async ({ system }) => {
      const { paid, intentId } = await aCardScene(system);
      const disputeIt = async () => {
        const its = { kind: 'dispute', of: paid, intentId, amount: 625 } as const;
        const dispute = await bookAtProvider(system, its);
        const report = { provider: 'stripe', intentId, disputeId: dispute } as const;
        const money = { amount: 625n, currency: 'EUR' };
        const said = { ...money, reason: 'fraudulent', end: 'lost' } as const;
        const noted = await system.noteDispute({ ...report, ...said });
        assert.equal(noted.outcome, 'disputed');
        return dispute;
      };
      await disputeIt();
      const dispute = await disputeIt();
      const event = deriveDisputeEventId(paid.txnId, dispute);
      const ids = { payment: paid.txnId, dispute, event };
      return { key: of === 'outbox' ? event : dispute, id: ids[named] };
    },
  };
}
type DisputePart = 'payment' | 'dispute' | 'event';

/** A part of the card scene. */
export type CardPart = 'chargeId' | 'refundId' | 'paid' | 'refund';

/** The row of the card scene's charge or refund, or the ledger's of it, and what is named. */
export function card(of: CardPart, named: CardPart = of): Rows {
  return {
    by: of === 'paid' || of === 'refund' ? 'txn_id' : 'id',
    find: async ({ system }) => {
      const scene = await aCardScene(system);
      const idOf = (part: CardPart) => {
        const harmed = scene[part];
        return typeof harmed === 'string' ? harmed : harmed.txnId;
      };
      return { key: idOf(of), id: idOf(named) };
    },
  };
}

/** A card payment of which a part was captured, in the journal and in the ledger. */
export async function aCaptureScene(system: System) {
  const wish = { paymentMethod: 'pm_card_visa', captureMethod: 'manual', amount: 2_000n } as const;
  const paid = aPayment(wish);
  const capture = aRefund(paid, { kind: 'capture', amount: 1_250n });
  const intentId = `pi-${randomUUID()}`;
  await bookAtProvider(system, { kind: 'intent', of: paid, intentId, amount: 2_000 });
  const chargeId = await bookAtProvider(system, { kind: 'charge', of: paid, intentId });
  await system.captureByCard(paid, { capture, intentId, chargeId });
  return { paid, capture, intentId, chargeId };
}

/** The ledger's row of a captured payment, or of its capture, where the payment is named. */
export function captured(of: 'paid' | 'capture' = 'paid'): Rows {
  return {
    by: 'txn_id',
    find: async ({ system }) => {
      const scene = await aCaptureScene(system);
      return { key: scene[of].txnId, id: scene.paid.txnId };
    },
  };
}
