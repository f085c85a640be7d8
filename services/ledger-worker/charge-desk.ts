import { isFinal, type AcceptedPayment, type Payment } from '@triplock/payments';
import { askUntilKnown } from './ask-until-known.ts';
import { attemptWord, fateOfAttempt } from './attempt-outcome.ts';
import { chargePayment, type ChargeParts } from './charge-payment.ts';
import type { RefundToGive } from './give-back.ts';
import { openHandOver, type HandOverParts, type Turn } from './hand-over.ts';
import type { WorkerMetrics } from './metrics.ts';
import { giveBackInTime, type RefundDeskParts, type RefundFate } from './refund-desk.ts';

/** What the desk stands on. */
export type DeskParts = ChargeParts &
  RefundDeskParts &
  HandOverParts & { metrics: Pick<WorkerMetrics, 'charges'> };

/** A card payment that is in the ledger: just posted, or found there unfinished. */
export type PostedCard = {
  payment: AcceptedPayment;
  traceparent: string;
  posted: 'now' | 'before';
};

/**
 * What a batch has to know of a charge. `handed-over`: it is pending, durable, and looked after.
 */
export type ChargeFate = 'charged' | 'declined' | 'handed-over' | 'already-recorded';

const ended = { succeeded: 'charged', failed: 'declined' } as const;

/**
 * Charges and gives back for batches. Both wait for a place, and then for their end, up to the
 * hand-over each. A provider that is left alone is waited for as long, which holds back the
 * partition's next records and spends no attempt.
 *
 * They throw in an outage of the ledger: the row may be pending, and the record has to come again.
 */
export type ChargeDesk = {
  charge(card: PostedCard): Promise<ChargeFate>;
  giveBack(refund: RefundToGive): Promise<RefundFate>;
  /** Waits for what is under way. */
  close(): Promise<void>;
};

/** Opens the desk. */
export function openChargeDesk(parts: DeskParts): ChargeDesk {
  const work = openHandOver(parts);
  return {
    charge: (card) => work.inTime(card.payment.txnId, (turn) => chargeInTime(parts, card, turn)),
    giveBack: (given) =>
      work.inTime(given.refund.txnId, (turn) => giveBackInTime(parts, given, turn)),
    close: () => work.close(),
  };
}

/** A row that was not posted just now may have been taken by another worker meanwhile. */
function chargeInTime(parts: DeskParts, card: PostedCard, turn: Turn): Promise<ChargeFate> {
  return askUntilKnown<ChargeFate>(parts, {
    transaction: card.payment,
    turn,
    attempt: async (again) => {
      const payment = await rowOf(
        parts,
        turn.waited || again ? { ...card, posted: 'before' } : card,
      );
      if (payment === undefined) return 'already-recorded';
      const outcome = await chargePayment(parts, { ...card, payment });
      parts.metrics.charges.count(attemptWord(outcome));
      return outcome.outcome === 'unknown' ? outcome.because : fateOfAttempt(outcome, ended);
    },
  });
}

/** The row as it is to be charged, or nothing when there is nothing left to do. */
async function rowOf({ ledger }: DeskParts, card: PostedCard): Promise<Payment | undefined> {
  if (card.posted === 'now') {
    const fresh = { state: 'pending', version: 1, amountRefunded: 0n, settledAt: null } as const;
    return { ...card.payment, ...fresh };
  }
  const row = await ledger.find(card.payment.txnId);
  return row === undefined || isFinal(row.state) ? undefined : row;
}
