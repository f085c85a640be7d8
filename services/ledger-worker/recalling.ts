import type { OpenRewind, Recovery } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import type { ListedDispute } from '@triplock/provider';
import type { Logger, Pass } from '@triplock/runtime';
import { noteDispute } from './stripe-webhooks.ts';
import type { AttemptOutcome, Worker } from './worker.ts';

/*
 * After the ledger was set back: what was decided since then is known to the provider, and is taken
 * over from there before anything of it is decided anew.
 */

/**
 * Asks the provider for every refund that it made of a payment, and notes them: from then on each has
 * the amount and end that it has there. A crash before the note leaves nothing, and the next one that
 * is due asks again. Resolves to nothing once they are noted.
 */
export async function recallRefunds(
  { ledger, followUps, provider }: Worker,
  paymentId: TxnId,
): Promise<Extract<AttemptOutcome, { outcome: 'unknown' }> | undefined> {
  const payment = await ledger.find(paymentId);
  if (payment?.provider === undefined || followUps.recall === undefined) {
    throw new Error(`payment ${paymentId} has no charge to ask the provider about`);
  }
  const { intentId } = payment.provider;
  const listed = await provider.listRefunds({ intentId, money: payment.details.money });
  if (listed.outcome === 'unknown') return { outcome: 'unknown', because: listed };
  await followUps.recall({ paymentId, refunds: listed.refunds });
  return undefined;
}

/**
 * How long before a lost moment a dispute may have begun of which the provider told only afterwards:
 * it repeats a report for three days (docs.stripe.com/webhooks#retries).
 */
const reportedWithinMs = 4 * 86_400_000;

/**
 * A pass that asks the provider for every dispute since a rewind's moment and notes them, each once:
 * those that the ledger has are known to it. A dispute of a payment that is not final yet waits for
 * it, and the rewind stays open. Returns whether there may be more to do.
 */
export function disputesPass(worker: Worker, recovery: Recovery, logger: Logger): Pass {
  return async () => {
    const rewind = await recovery.openRewind();
    if (rewind === undefined) return 0;
    const noted = await noteAll(worker, rewind);
    if (noted !== 'all') return 0;
    await recovery.disputesAsked(rewind);
    logger.info({ since: rewind.since }, 'every dispute since the ledger was set back is noted');
    return 1;
  };
}

async function noteAll(worker: Worker, { since }: OpenRewind): Promise<'all' | 'not all'> {
  const from = new Date(+since - reportedWithinMs);
  let isWhole = true;
  let after: string | undefined;
  do {
    const page = await worker.provider.listDisputes({ since: from, ...(after && { after }) });
    if (page.outcome === 'unknown') {
      worker.logger.warn({ err: page.error }, 'the provider does not say what is disputed');
      return 'not all';
    }
    for (const dispute of page.disputes) {
      if (!(await isNoted(worker, dispute))) isWhole = false;
    }
    after = page.next;
  } while (after !== undefined);
  return isWhole ? 'all' : 'not all';
}

async function isNoted(worker: Worker, dispute: ListedDispute): Promise<boolean> {
  try {
    await noteDispute(worker, dispute);
    return true;
  } catch (err) {
    worker.logger.info({ err, disputeId: dispute.disputeId }, 'a dispute waits to be noted');
    return false;
  }
}
