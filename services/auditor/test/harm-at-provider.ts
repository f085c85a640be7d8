import { randomUUID } from 'node:crypto';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import type { Sabotage } from './harm.ts';
import type { System } from './whole-system.ts';

/** What the journal has of the provider, without the provider having it. */
async function bookAtProvider(
  system: System,
  row: {
    kind: 'intent' | 'charge' | 'refund';
    of: AcceptedPayment | AcceptedRefund;
    intentId: string;
    amount?: number;
  },
): Promise<string> {
  const id = row.kind === 'intent' ? row.intentId : `${row.kind}-${randomUUID()}`;
  const { txnId, partnerId } = row.of;
  const money = [row.amount ?? 1_250, 'EUR'];
  await system.break(
    `INSERT INTO auditor.provider_journal
       (kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
     VALUES ($1, $2, 'succeeded', $3, $4, now(), $5, $6, $7)`,
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
 * Changes what the provider has of the card scene's charge or refund, or the ledger's row of it.
 */
const harmCard =
  (
    statement: string,
    of: 'chargeId' | 'refundId' | 'paid' | 'refund',
    named: 'chargeId' | 'refundId' | 'paid' | 'refund' = of,
  ): Sabotage =>
  async ({ system }) => {
    const scene = await aCardScene(system);
    const idOf = (each: typeof of) => {
      const harmed = scene[each];
      return typeof harmed === 'string' ? harmed : harmed.txnId;
    };
    await system.break(statement, [idOf(of)]);
    return idOf(named);
  };

const changeJournal = (change: string) =>
  `UPDATE auditor.provider_journal SET ${change} WHERE id = $1`;
const changeLedger = (change: string) =>
  `UPDATE ledger.transactions SET ${change} WHERE txn_id = $1`;
const forgotten = 'DELETE FROM auditor.provider_journal WHERE id = $1';
const failed = `state = 'failed', failure_code = 'declined'`;

/** For every check of what the provider has some things that it exists to see. */
export const sabotageAtProvider: Record<string, readonly Sabotage[]> = {
  'charged-twice': [
    async ({ system }) => {
      const { paid, intentId } = await aCardScene(system);
      await bookAtProvider(system, { kind: 'charge', of: paid, intentId });
      return paid.txnId;
    },
  ],
  'charge-unfounded': [
    ({ system }) => bookAtProvider(system, { kind: 'charge', of: aPayment(), intentId: 'pi-1' }),
    harmCard(changeJournal(`intent_id = 'pi-2'`), 'chargeId'),
    harmCard(changeJournal(`intent_id = 'pi-2', status = 'failed'`), 'chargeId'),
    harmCard('DELETE FROM ledger.transactions WHERE txn_id = $1', 'paid', 'chargeId'),
  ],
  'charge-differs-from-ledger': [
    harmCard(changeJournal('amount = amount + 1'), 'chargeId'),
    harmCard(changeJournal(`currency = 'USD'`), 'chargeId'),
    harmCard(changeJournal(`partner_id = 'globex'`), 'chargeId'),
    harmCard(changeLedger(`provider_charge_id = 'ch-1'`), 'paid', 'chargeId'),
    harmCard(changeLedger(failed), 'paid', 'chargeId'),
  ],
  'charge-missing': [
    harmCard(forgotten, 'chargeId', 'paid'),
    harmCard(changeJournal(`status = 'failed'`), 'chargeId', 'paid'),
  ],
  'intent-unfounded': [
    ({ system }) => bookAtProvider(system, { kind: 'intent', of: aPayment(), intentId: 'pi-3' }),
  ],
  'given-back-twice': [
    async ({ system }) => {
      const { refund, intentId } = await aCardScene(system);
      await bookAtProvider(system, { kind: 'refund', of: refund, intentId, amount: 250 });
      return refund.txnId;
    },
  ],
  'given-back-unfounded': [
    harmCard(changeJournal('txn_id = NULL, partner_id = NULL'), 'refundId'),
    harmCard(changeJournal(`intent_id = 'pi-4'`), 'refundId'),
    harmCard('DELETE FROM ledger.transactions WHERE txn_id = $1', 'refund', 'refundId'),
  ],
  'given-back-differs-from-ledger': [
    harmCard(changeJournal('amount = amount + 1'), 'refundId'),
    harmCard(changeJournal(`currency = 'USD'`), 'refundId'),
  ],
  'given-back-otherwise': [
    harmCard(forgotten, 'refundId', 'refund'),
    harmCard(changeJournal(`status = 'failed'`), 'refundId', 'refund'),
    harmCard(changeJournal(`status = 'pending'`), 'refundId', 'refund'),
    harmCard(changeLedger(failed), 'refund'),
  ],
};
