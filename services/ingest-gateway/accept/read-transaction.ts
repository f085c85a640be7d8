import { setTimeout as delay } from 'node:timers/promises';
import type { Claims, BucketEpoch, PendingRead } from '@triplock/claims';
import { isFinal, type PartnerId, type Payment, type Refund, type TxnId } from '@triplock/payments';
import type { LossRecovery } from './loss-recovery.ts';
import { startBudget } from '../http/time-budget.ts';
import type { ReadForm } from './transaction-form.ts';

/** What reading stands on. */
export type ReadParts<Held extends Payment | Refund> = {
  form: ReadForm<Held>;
  claims: Pick<Claims, 'read'>;
  recovery: LossRecovery;
  /** How long one look may take, milliseconds. */
  budgetMs: number;
};

/**
 * Which payment or refund, who asks, and how long to wait until it is final. `ended` cuts the wait
 * short.
 */
export type Question = {
  txnId: TxnId;
  partnerId: PartnerId;
  waitMs: number;
  ended: AbortSignal;
};

/** What a read gives. Another partner's is not found. */
export type ReadOutcome =
  | { outcome: 'found'; body: string; final: boolean }
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and a claim was lost or has expired before it caught up. */
  | { outcome: 'cold' };

/**
 * Reads one payment or refund: from the ledger, and until it is there from the claim that accepted
 * it, so that what was accepted is never not found. Where claims have expired before the ledger
 * came so far, nobody can tell.
 *
 * @throws when the ledger, the claim store or, about what both do not know, Kafka does not answer
 * in time.
 */
export async function readTransaction<Held extends Payment | Refund>(
  parts: ReadParts<Held>,
  question: Question,
): Promise<ReadOutcome> {
  const seen = await startBudget(parts.budgetMs).hold(look(parts, question), 'reading');
  if (seen.outcome !== 'found' || seen.final || question.waitMs === 0) return seen;
  return (await waitUntilFinal(parts, question)) ?? seen;
}

/** One look, by which another partner's is not found. */
export async function look<Held extends Payment | Refund>(
  { form, claims, recovery }: Pick<ReadParts<Held>, 'form' | 'claims' | 'recovery'>,
  { txnId, partnerId }: Pick<Question, 'txnId' | 'partnerId'>,
): Promise<ReadOutcome> {
  const show = (held: Held) => showTo(partnerId, { form, held });
  const posted = await form.find(txnId);
  if (posted !== undefined) return show(posted);
  const claimed = await claims.read(txnId);
  switch (claimed.outcome) {
    case 'pending':
      return showClaimed(claimed, { object: form.object, partnerId });
    case 'unknown': {
      if (!(await recovery.expiredArePosted())) return { outcome: 'cold' };
      // Asked again, because it may have been posted meanwhile.
      const late = await form.find(txnId);
      return late === undefined ? { outcome: 'not-found' } : show(late);
    }
    case 'cold': {
      const { epoch, caughtUp } = await recovery.checkBarrier(txnId, claimed);
      // Asked again, because only what the ledger says after the barrier counts.
      const late = await form.find(txnId);
      if (late !== undefined) return show(late);
      // And only in the epoch of that barrier: after another loss it would be too low.
      const still = caughtUp ? await claims.read(txnId) : undefined;
      return { outcome: still && holdsIn(epoch, still) ? 'not-found' : 'cold' };
    }
    default:
      return claimed satisfies never;
  }
}

/** What a claim shows to whom: another partner's, or one of the other kind, is not found. */
export function showClaimed(
  { partnerId, shown }: Extract<PendingRead, { outcome: 'pending' }>,
  asked: { partnerId: PartnerId; object: ReadForm<Payment | Refund>['object'] },
): ReadOutcome {
  const { object } = JSON.parse(shown) as { object?: string };
  if (partnerId !== asked.partnerId || object !== asked.object) return { outcome: 'not-found' };
  return { outcome: 'found', body: shown, final: false };
}

/** Whether a claim store that knew nothing still knows nothing, and has lost nothing since. */
function holdsIn(epoch: BucketEpoch, read: PendingRead): boolean {
  return read.outcome === 'unknown' || (read.outcome === 'cold' && read.epoch === epoch);
}

function showTo<Held extends Payment | Refund>(
  partnerId: PartnerId,
  { form, held }: { form: ReadForm<Held>; held: Held },
): ReadOutcome {
  if (held.partnerId !== partnerId) return { outcome: 'not-found' };
  const body = JSON.stringify(form.render(held));
  return { outcome: 'found', body, final: isFinal(held.state) };
}

// A book transfer is final within a fraction of a second: quick at first, then four times a second.
const firstPauseMs = 25;
const longestPauseMs = 250;

/** It, once it is final; what was last seen of it, if anything, when the wait is over. */
async function waitUntilFinal<Held extends Payment | Refund>(
  parts: ReadParts<Held>,
  question: Question,
): Promise<ReadOutcome | undefined> {
  const end = performance.now() + question.waitMs;
  let seen: ReadOutcome | undefined;
  let pauseMs = firstPauseMs;
  while (!question.ended.aborted && performance.now() < end) {
    await pause(Math.min(pauseMs, end - performance.now()), question.ended);
    pauseMs = Math.min(pauseMs * 1.5, longestPauseMs);
    const found = await lookAgain(parts, question);
    if (found !== undefined) seen = found;
    if (seen?.outcome === 'found' && seen.final) break;
  }
  return seen;
}

/** The ledger's row. A ledger that does not answer now takes nothing from what was seen before. */
async function lookAgain<Held extends Payment | Refund>(
  { form, budgetMs }: ReadParts<Held>,
  { txnId, partnerId }: Question,
): Promise<ReadOutcome | undefined> {
  try {
    const posted = await startBudget(budgetMs).hold(form.find(txnId), 'the ledger');
    return posted && showTo(partnerId, { form, held: posted });
  } catch {
    return undefined;
  }
}

async function pause(ms: number, ended: AbortSignal): Promise<void> {
  await delay(Math.max(1, ms), undefined, { signal: ended }).catch(() => undefined);
}
