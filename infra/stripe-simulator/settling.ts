import { commitChange, type DueWork, type Engine } from './engine.ts';
import { happened } from './operations/operation.ts';
import { settleRefund } from './operations/refunds.ts';
import type { ChargeRecord, PaymentIntentRecord, RefundRecord } from './records.ts';
import type { Account } from './store/account.ts';
import type { Change } from './store/journal.ts';

type Unsettled = PaymentIntentRecord | RefundRecord;

/** What settles by itself, as time passes: payments in processing and refunds on their way. */
export function createSettling(engine: Engine): DueWork {
  return {
    nextInMs() {
      let next = Infinity;
      for (const { settlement } of unsettled(engine)) {
        next = Math.min(next, settlement?.at ?? Infinity);
      }
      return next === Infinity ? undefined : next - engine.clock.now();
    },
    async pass() {
      const now = engine.clock.now();
      const due = [...unsettled(engine)].filter(({ settlement }) => {
        return settlement !== null && settlement.at !== null && settlement.at <= now;
      });
      due.forEach((row) => settle(engine, row));
      await engine.store.settled();
      return due.length;
    },
  };
}

/** Settles one at once, or everything that would settle by itself one day; returns how many. */
export function settleNow(engine: Engine, id?: string): number {
  const chosen = [...unsettled(engine)].filter((row) => {
    return id === undefined ? row.settlement?.at !== null : row.id === id;
  });
  chosen.forEach((row) => settle(engine, row));
  return chosen.length;
}

function settle(engine: Engine, row: Unsettled): void {
  const { account } = engine.store;
  const at = engine.clock.now();
  const change: Change =
    row.kind === 'refund' ? settleRefund(account, row, at) : settlePayment(account, row, at);
  commitChange(engine, 'settlement', { change });
}

function* unsettled({ store: { account } }: Engine): Iterable<Unsettled> {
  for (const id of account.unsettled) {
    const row = account.paymentIntents.get(id) ?? account.refunds.get(id);
    if (row !== undefined) yield row;
  }
}

/**
 * Ends a payment in `processing` as its test method prescribes: the bank has paid, or has not
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
      status: 'succeeded',
      amountReceived: intent.amount,
      settlement: null,
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
    status: 'requires_payment_method',
    paymentMethod: null,
    settlement: null,
    lastFailure: { ...failure, charge: charge.id, paymentMethod: charge.paymentMethod },
  };
  const events = [
    happened('charge.failed', unpaid, when),
    happened('payment_intent.payment_failed', open, when),
  ];
  return { paymentIntents: [open], charges: [unpaid], events };
}
