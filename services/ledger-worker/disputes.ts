import type { DisputeReport } from '@triplock/ledger';
import { withDeadline } from '@triplock/runtime';
import type { ProviderEventOutcome } from './metrics.ts';
import type { WorkerAt } from './worker.ts';

/** A provider sends again what is not answered in time; this leaves it its own limits. */
const answerWithinMs = 5_000;

/**
 * Notes a dispute beside its payment and tells the partner, both in one transaction and each
 * dispute once.
 *
 * @throws while the payment is pending, and has no end whose number the dispute could follow: the
 * report has to come again.
 */
export async function noteDispute(
  { name: provider, ledger, crashPoints, logger }: WorkerAt,
  dispute: Omit<DisputeReport, 'provider'>,
): Promise<ProviderEventOutcome> {
  const noted = await withinLimits(ledger.noteDispute({ provider, ...dispute }));
  switch (noted.outcome) {
    case 'disputed':
      logger.warn({ txnId: noted.txnId, disputeId: dispute.disputeId }, 'a payment is disputed');
      await crashPoints.reached('worker.disputed');
      return 'disputed';
    case 'already-noted':
      return 'duplicate';
    case 'not-final':
      throw new Error(`payment ${noted.txnId} is disputed and not final yet`);
    case 'other-currency':
      // It would be so again: a person has to see what the bank wants, and tell the partner.
      logger.error(
        { txnId: noted.txnId, disputeId: dispute.disputeId, currency: dispute.currency },
        'a dispute is of another currency than its payment, and its partner is not told',
      );
      return 'other-currency';
    case 'unknown':
      return 'nothing-waits';
    default:
      return noted satisfies never;
  }
}

/** What is asked while a provider waits for its answer. */
export function withinLimits<Value>(asked: Promise<Value>, what = 'the ledger'): Promise<Value> {
  return withDeadline(asked, { ms: answerWithinMs, what });
}
