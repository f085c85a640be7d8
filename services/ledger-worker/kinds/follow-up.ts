import type { ReservedFollowUp, SettleFollowUpRequest } from '@triplock/ledger';
import type { AttemptOutcome, Worker, WorkerAt } from '../worker.ts';

/**
 * A reserved refund, capture or cancellation, and whether the provider may have been asked for it
 * before.
 */
export type FollowUpToDo = {
  followUp: ReservedFollowUp;
  traceparent: string;
  asked: 'never' | 'perhaps';
};

/** One attempt to have the provider do it, once, and to settle it by what came of that. */
export type CarryOut = (worker: WorkerAt, given: FollowUpToDo) => Promise<AttemptOutcome>;

/** Settles one that was reserved; a worker that was faster has come to the same end. */
export async function settleFollowUp(
  { followUps, crashPoints }: Worker,
  { txnId, version }: ReservedFollowUp,
  end: Pick<SettleFollowUpRequest, 'result' | 'traceparent' | 'refundId' | 'payment'>,
): Promise<AttemptOutcome> {
  const settled = await followUps.settle({ txnId, version, settledAt: new Date(), ...end });
  if (settled.outcome === 'settled') {
    await crashPoints.reached('worker.settled');
    return { outcome: 'settled', state: end.result.state };
  }
  const row = await followUps.find(txnId);
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}
