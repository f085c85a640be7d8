import {
  UnpostableError,
  UnreadableRowError,
  type FollowUpOutcome,
  type FollowUpPosting,
} from '@triplock/ledger';
import { whyImmovable } from '@triplock/providers';
import type { Worker } from '../worker.ts';
import type { FollowUpRecord } from './posting.ts';

/** Payments whose follow-ups are posted side by side: half of the ledger's connections. */
const paymentsMax = 4;

/**
 * What posting one follow-up came to. `unpostable`: no ledger will ever store it; `unreadable`: it
 * is in the ledger already, and its row makes no sense.
 */
export type FollowUpPostResult =
  | FollowUpOutcome
  | { outcome: 'unpostable'; detail: string }
  | { outcome: 'unreadable'; error: UnreadableRowError };

/** A follow-up and what posting it came to. */
export type PostedFollowUp = { followUp: FollowUpRecord; result: FollowUpPostResult };

/**
 * Posts what follows payments, of one payment in the order of the records, so that the first to
 * arrive gets the money. What has to wait for its payment waits as a pending row and holds up
 * nobody but later ones of its payment: it is due as soon as its payment is settled. One whose
 * payment somebody has locked does so too, and is due soon by itself. A crash between two of them
 * leaves posted rows and an offset that is not committed: the redelivered batch finds each row by
 * its key and goes on.
 *
 * @throws in an outage.
 */
export async function postFollowUps(
  worker: Worker,
  followUps: readonly FollowUpRecord[],
): Promise<PostedFollowUp[]> {
  const posted: PostedFollowUp[] = [];
  const post = async ({ posting }: FollowUpRecord): Promise<FollowUpPostResult> => {
    try {
      return await postFollowUp(worker, posting);
    } catch (error) {
      if (error instanceof UnreadableRowError) return { outcome: 'unreadable', error };
      if (!(error instanceof UnpostableError)) throw error;
      return { outcome: 'unpostable', detail: error.message };
    }
  };
  const byPayment = Map.groupBy(followUps, ({ posting }) => posting.followUp.paymentId).values();
  const postSome = async () => {
    // Whoever is free takes the next payment: they share the iterator.
    for (const ofOne of byPayment) {
      for (const followUp of ofOne) {
        posted.push({ followUp, result: await followUp.span.within(() => post(followUp)) });
      }
    }
  };
  await Promise.all(Array.from({ length: paymentsMax }, postSome));
  return posted;
}

/**
 * Posts one, or looks at one again, which holds no amount that its provider has no unit for: it
 * would fail there, and what comes after it had been refused the money meanwhile.
 */
export function postFollowUp(
  { followUps }: Worker,
  posting: FollowUpPosting,
): Promise<FollowUpOutcome> {
  return followUps.post({ ...posting, refuse: whyImmovable });
}
