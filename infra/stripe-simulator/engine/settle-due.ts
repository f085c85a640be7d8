import type { PaymentIntentRecord, RefundRecord } from '../records/records.ts';
import { settlePayment } from '../operations/settle-payment.ts';
import { settleRefund } from '../operations/settle-refund.ts';
import type { Change } from '../store/entry.ts';
import type { DueWork } from './alarm.ts';
import { commitChange, type Engine } from './engine.ts';

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

/** Settles one at once, or everything that would settle by itself one day; says how many. */
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
