import type { ChargeRecord, PaymentIntentRecord } from '../records/records.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/entry.ts';
import { happened } from './operation.ts';

/**
 * Ends a payment in `processing` as its test method says: the bank has paid, or has not
 * (https://docs.stripe.com/payments/paymentintents/lifecycle). No request causes it.
 */
export function settlePayment(account: Account, intent: PaymentIntentRecord, at: number): Change {
  const charge = account.charges.get(intent.latestCharge ?? '');
  if (charge === undefined || intent.settlement === null) {
    throw new Error(`payment intent ${intent.id} has nothing to settle`);
  }
  const { failure } = intent.settlement;
  const when = { at, request: null };
  if (failure === undefined) {
    const paid: ChargeRecord = { ...charge, status: 'succeeded' };
    const done: PaymentIntentRecord = {
      ...intent,
      ...{ status: 'succeeded', amountReceived: intent.amount, settlement: null },
    };
    const events = [
      happened('charge.succeeded', paid, when),
      happened('payment_intent.succeeded', done, when),
    ];
    return { paymentIntents: [done], charges: [paid], events };
  }
  const unpaid: ChargeRecord = { ...charge, status: 'failed', failure };
  const open: PaymentIntentRecord = {
    ...intent,
    ...{ status: 'requires_payment_method', paymentMethod: null, settlement: null },
    lastFailure: { ...failure, charge: charge.id, paymentMethod: charge.paymentMethod },
  };
  const events = [
    happened('charge.failed', unpaid, when),
    happened('payment_intent.payment_failed', open, when),
  ];
  return { paymentIntents: [open], charges: [unpaid], events };
}
