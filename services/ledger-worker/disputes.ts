import type { DisputeReport } from '@triplock/ledger';
import { withDeadline } from '@triplock/runtime';
import type { ProviderEventOutcome } from './metrics.ts';
import type { WorkerAt } from './worker.ts';

/** A provider sends again what is not answered in time; this leaves it its own limits. */
const answerWithinMs = 5_000;

/**
 * Notes a dispute beside its payment and tells the partner, both in one transaction and each
 * dispute once; and how it ended, with it or later.
 *
 * @throws while the payment is pending, and has no end whose number the dispute could follow: the
 * report has to come again.
 */
export async function noteDispute(
  worker: WorkerAt,
  dispute: Omit<DisputeReport, 'provider'>,
): Promise<ProviderEventOutcome> {
  const { name: provider, ledger, crashPoints, logger } = worker;
  const noted = await withinLimits(ledger.noteDispute({ provider, ...dispute }));
  switch (noted.outcome) {
    case 'disputed':
      logger.warn({ txnId: noted.txnId, disputeId: dispute.disputeId }, 'a payment is disputed');
      await crashPoints.reached('worker.disputed');
      return 'disputed';
    case 'ended': {
      const line = { txnId: noted.txnId, disputeId: dispute.disputeId, end: dispute.end };
      logger.info(line, 'a dispute has ended');
      return 'dispute-ended';
    }
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
      await requireStored(worker, dispute);
      return 'nothing-waits';
    default:
      return noted satisfies never;
  }
}

/**
 * No row named its intent. Where that was made and charged by one call, its payment may be pending
 * and wait for whoever stores it, or have been stored since.
 *
 * @throws then, and where the provider does not say whose it is.
 */
async function requireStored(
  { provider, ledger }: WorkerAt,
  { intentId }: Pick<DisputeReport, 'intentId'>,
): Promise<void> {
  if (provider.transactionOf === undefined) return;
  const about = await withinLimits(provider.transactionOf(intentId), 'the provider');
  if (about.outcome === 'unknown') {
    throw new Error(`nobody knows whose intent ${intentId} is`, { cause: about.error });
  }
  if (about.outcome === 'none') return;
  const { txnId } = about;
  const payment = await withinLimits(ledger.find(txnId));
  const mayStoreIt = payment?.state === 'pending' && payment.provider === undefined;
  if (mayStoreIt) throw new Error(`payment ${txnId} is disputed, and its intent not stored yet`);
  const isStored = payment?.provider?.intentId === intentId;
  if (isStored) throw new Error(`payment ${txnId} is disputed, and its intent only just stored`);
}

/** What is asked while a provider waits for its answer. */
export function withinLimits<Value>(asked: Promise<Value>, what = 'the ledger'): Promise<Value> {
  return withDeadline(asked, { ms: answerWithinMs, what });
}
