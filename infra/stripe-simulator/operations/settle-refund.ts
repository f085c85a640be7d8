import type { RefundRecord } from '../records/records.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/entry.ts';
import { happened } from './operation.ts';

/**
 * Ends a refund that was on its way. One that fails gives its amount back to the charge:
 * https://docs.stripe.com/refunds#failed-refunds
 */
export function settleRefund(account: Account, refund: RefundRecord, at: number): Change {
  const charge = account.charges.get(refund.charge);
  if (charge === undefined || refund.settlement === null) {
    throw new Error(`refund ${refund.id} has nothing to settle`);
  }
  const when = { at, request: null };
  if (refund.settlement.to === 'succeeded') {
    const done: RefundRecord = { ...refund, status: 'succeeded', settlement: null };
    const events = [
      happened('refund.updated', done, when),
      happened('charge.refund.updated', done, when),
    ];
    return { refunds: [done], events };
  }
  const failed: RefundRecord = {
    ...refund,
    ...{ status: 'failed', settlement: null, failureReason: 'expired_or_canceled_card' },
  };
  const restored = { ...charge, amountRefunded: charge.amountRefunded - refund.amount };
  const events = [
    happened('refund.failed', failed, when),
    happened('refund.updated', failed, when),
    happened('charge.refund.updated', failed, when),
  ];
  return { refunds: [failed], charges: [restored], events };
}
