import { aPayment, aRefund } from '@triplock/testing';
import type { Sabotage } from './harm.ts';
import { succeededEvent } from './whole-system.ts';

let harmedBatches = 0;

/** Harms the batch of a partner that has no other. */
const harmBatch =
  (statement: string): Sabotage =>
  async ({ system }) => {
    const partner = `batch-${(harmedBatches += 1)}`;
    const paid = aPayment({ partner });
    await system.pay(paid);
    await system.giveBack(aRefund(paid, { amount: 250n }), 2);
    await system.break(`${statement} WHERE partner_id = $1`, [partner]);
    return `${partner}/${succeededEvent(paid).timestamp.slice(0, 10)}/EUR`;
  };

/** For every check of the settlement some things that it exists to see, done to what was well. */
export const sabotageOfSettlement: Record<string, readonly Sabotage[]> = {
  'settlement-missing': [
    async ({ system, paid, refunded }) => {
      await system.break('DELETE FROM settlement.cursors WHERE ordering_key = $1', [paid.txnId]);
      return refunded.event_id;
    },
  ],
  'settlement-differs-from-ledger': [
    harmBatch('UPDATE settlement.batches SET gross = gross + 1, refunds = refunds + 1'),
    harmBatch('UPDATE settlement.batches SET refunds = refunds - 1'),
    harmBatch('UPDATE settlement.batches SET payments = payments + 1'),
    harmBatch('UPDATE settlement.batches SET day = day - 1'),
    harmBatch('DELETE FROM settlement.batches'),
    harmBatch('UPDATE ledger.transactions SET amount = amount + 1'),
  ],
};
