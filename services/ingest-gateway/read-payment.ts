import { setTimeout as delay } from 'node:timers/promises';
import type { Claims, MemoryEpoch, PendingRead } from '@triplock/claims';
import { renderPayment } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import { isFinal, type PartnerId, type Payment, type TxnId } from '@triplock/payments';
import type { Memory } from './recover-memory.ts';
import { startBudget } from './time-budget.ts';

/** What reading stands on. */
export type ReadParts = {
  ledger: Pick<Ledger, 'find'>;
  claims: Pick<Claims, 'read'>;
  memory: Memory;
  /** How long one look may take, milliseconds. */
  budgetMs: number;
};

/** Which payment, who asks, and how long to wait until it is final. `ended` cuts the wait short. */
export type PaymentQuestion = {
  txnId: TxnId;
  partnerId: PartnerId;
  waitMs: number;
  ended: AbortSignal;
};

/** What a read gives. Another partner's payment is not found. */
export type ReadOutcome =
  | { outcome: 'found'; body: string; final: boolean }
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and the claims were lost before it caught up. */
  | { outcome: 'cold' };

/**
 * Reads one payment: from the ledger, and until it is there from the claim that accepted it, so
 * that an accepted payment is never not found.
 *
 * @throws when the ledger or the claim store does not answer in time.
 */
export async function readPayment(
  parts: ReadParts,
  question: PaymentQuestion,
): Promise<ReadOutcome> {
  const seen = await startBudget(parts.budgetMs).hold(look(parts, question), 'reading');
  if (seen.outcome !== 'found' || seen.final || question.waitMs === 0) return seen;
  return (await waitUntilFinal(parts, question)) ?? seen;
}

async function look(parts: ReadParts, { txnId, partnerId }: PaymentQuestion): Promise<ReadOutcome> {
  const posted = await parts.ledger.find(txnId);
  if (posted !== undefined) return show(posted, partnerId);
  const claimed = await parts.claims.read(txnId);
  switch (claimed.outcome) {
    case 'pending':
      if (claimed.partnerId !== partnerId) return { outcome: 'not-found' };
      return { outcome: 'found', body: claimed.shown, final: false };
    case 'unknown':
      return { outcome: 'not-found' };
    case 'cold': {
      const { epoch, caughtUp } = await parts.memory.recollect(txnId, claimed);
      // Asked again, because only what the ledger says after the barrier counts.
      const late = await parts.ledger.find(txnId);
      if (late !== undefined) return show(late, partnerId);
      // And only in the epoch of that barrier: after another loss it would be too low.
      const still = caughtUp ? await parts.claims.read(txnId) : undefined;
      return { outcome: still && holdsIn(epoch, still) ? 'not-found' : 'cold' };
    }
  }
}

/** Whether a claim store that knew nothing still knows nothing, and has forgotten nothing since. */
function holdsIn(epoch: MemoryEpoch, read: PendingRead): boolean {
  return read.outcome === 'unknown' || (read.outcome === 'cold' && read.epoch === epoch);
}

function show(payment: Payment, partnerId: PartnerId): ReadOutcome {
  if (payment.partnerId !== partnerId) return { outcome: 'not-found' };
  const body = JSON.stringify(renderPayment(payment));
  return { outcome: 'found', body, final: isFinal(payment.state) };
}

// A book transfer is final within a fraction of a second: quick at first, then four times a second.
const firstPauseMs = 25;
const longestPauseMs = 250;

/** The payment once it is final; what was last seen of it, if anything, when the wait is over. */
async function waitUntilFinal(
  parts: ReadParts,
  question: PaymentQuestion,
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
async function lookAgain(
  { ledger, budgetMs }: ReadParts,
  { txnId, partnerId }: PaymentQuestion,
): Promise<ReadOutcome | undefined> {
  try {
    const posted = await startBudget(budgetMs).hold(ledger.find(txnId), 'the ledger');
    return posted && show(posted, partnerId);
  } catch {
    return undefined;
  }
}

async function pause(ms: number, ended: AbortSignal): Promise<void> {
  await delay(Math.max(1, ms), undefined, { signal: ended }).catch(() => undefined);
}
