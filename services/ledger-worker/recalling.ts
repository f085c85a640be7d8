import type { OpenRewind, Recovery } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import type { ListedDispute } from '@triplock/provider';
import type { Logger, Pass } from '@triplock/runtime';
import { noteDispute } from './disputes.ts';
import type { AttemptOutcome, Worker, WorkerAt } from './worker.ts';

/*
 * After the ledger was set back: what was decided since then is known to the provider, and is taken
 * over from there before anything of it is decided anew.
 */

/**
 * Asks the provider for every refund that it made of a payment, and notes them: from then on each
 * has the amount and end that it has there. A crash before the note leaves nothing, and the next
 * one that is due asks again. Resolves to nothing once they are noted.
 */
export async function recallRefunds(
  worker: Worker,
  paymentId: TxnId,
): Promise<Extract<AttemptOutcome, { outcome: 'unknown' }> | undefined> {
  const { ledger, followUps } = worker;
  const payment = await ledger.find(paymentId);
  if (payment?.provider === undefined || followUps.recall === undefined) {
    throw new Error(`payment ${paymentId} has no charge to ask the provider about`);
  }
  const { name, intentId } = payment.provider;
  const { provider } = worker.providers.named(name);
  const listed = await provider.listRefunds({ intentId, money: payment.details.money });
  if (listed.outcome === 'unknown') return { outcome: 'unknown', because: listed };
  await followUps.recall({ paymentId, refunds: listed.refunds });
  return undefined;
}

/**
 * How long before a lost moment a dispute may have begun of which the provider told only
 * afterwards, or told the end: a bank takes up to three months to decide
 * (docs.stripe.com/disputes/how-disputes-work), and a report is repeated for three days.
 */
const reportedWithinMs = 120 * 86_400_000;

/**
 * For how long a dispute of a payment that nobody knows may be one of ours, whose record is still
 * to be read again or whose charge is still to be found. Others may use the provider's account too.
 */
const unknownForMs = 86_400_000;

/**
 * A pass that asks each provider for every dispute since a rewind's moment and notes them, each
 * once: those that the ledger has are known to it. One of a payment that is not final yet, or not
 * there, waits for it, and the rewind stays open. Returns 1 when it closed one.
 */
export function disputesPass(worker: Worker, recovery: Recovery, logger: Logger): Pass {
  return async () => {
    const rewind = await recovery.openRewind();
    if (rewind === undefined) return 0;
    const isLate = Date.now() - +rewind.doneAt > unknownForMs;
    for (const asked of worker.providers.offered) {
      const { waiting, unknown } = await noteAll({ ...worker, ...asked }, rewind);
      if (waiting > 0 || (unknown > 0 && !isLate)) return 0;
    }
    await recovery.disputesAsked(rewind);
    logger.info({ since: rewind.since }, 'every dispute since the ledger was set back is noted');
    return 1;
  };
}

/** How many disputes are of a payment that is to become final, and of none that is known. */
type Left = { waiting: number; unknown: number };

async function noteAll(worker: WorkerAt, { since }: OpenRewind): Promise<Left> {
  const from = new Date(+since - reportedWithinMs);
  const left: Left = { waiting: 0, unknown: 0 };
  let after: string | undefined;
  do {
    const page = await worker.provider.listDisputes({ since: from, ...(after && { after }) });
    if (page.outcome === 'unknown') {
      worker.logger.warn({ err: page.error }, 'the provider does not say what is disputed');
      return { ...left, waiting: left.waiting + 1 };
    }
    for (const dispute of page.disputes) {
      const noted = await noteOne(worker, dispute);
      if (noted !== 'done') left[noted] += 1;
    }
    after = page.next;
  } while (after !== undefined);
  return left;
}

async function noteOne(worker: WorkerAt, dispute: ListedDispute): Promise<keyof Left | 'done'> {
  try {
    return (await noteDispute(worker, dispute)) === 'nothing-waits' ? 'unknown' : 'done';
  } catch (err) {
    worker.logger.info({ err, disputeId: dispute.disputeId }, 'a dispute waits to be noted');
    return 'waiting';
  }
}
