import type { Ledger } from '@triplock/ledger';
import type { TransactionKind, TxnId } from '@triplock/payments';
import { DeadlineError, inBatches, inSpan } from '@triplock/runtime';

/**
 * Whether the ledger has it as one of this kind, asked after the call.
 *
 * @throws when the ledger does not answer, or was not asked in time.
 */
export type IsPosted = (asked: { kind: TransactionKind; txnId: TxnId }) => Promise<boolean>;

/** How many questions go together, and may wait. */
export type QuestionLimits = { itemsMax: number; batchesMax: number; waitingMax: number };

/**
 * Ids alone travel, so a statement of so many is a millisecond of the server, and whoever asks one
 * thing behind a partner that asks a thousand waits for some of them. Two statements at once: a
 * connection that stands still holds up those who share it, and not all.
 */
const usualLimits: QuestionLimits = { itemsMax: 200, batchesMax: 2, waitingMax: 10_000 };

/**
 * Asks the ledger by one statement for all who came while the one before it was under way. After a
 * loss of the claims each new key is such a question, for a day.
 *
 * A statement that fails fails those who share it, and nobody else. Of who has waited for `limitMs`
 * the request was answered: the ledger is not asked for it any more, so that what waits behind a
 * ledger that stood still is done with at once.
 */
export function askTogether(
  ledger: Pick<Ledger, 'kindsOf'>,
  { limitMs, ...limits }: { limitMs: number } & Partial<QuestionLimits>,
): IsPosted {
  type Question = Parameters<IsPosted>[0] & { until: number };
  const ask = inBatches(
    async (questions: readonly Question[]): Promise<(boolean | undefined)[]> => {
      const now = performance.now();
      const inTime = questions.filter(({ until }) => now < until);
      const ids = [...new Set(inTime.map(({ txnId }) => txnId))];
      const kinds = ids.length === 0 ? undefined : await ledger.kindsOf(ids);
      return questions.map(({ kind, txnId, until }) =>
        now < until ? kinds?.get(txnId) === kind : undefined,
      );
    },
    { ...usualLimits, ...limits },
  );
  // A span of each payment's own: the statement is in the trace of one of those who share it.
  const span = { name: 'ask the ledger', kind: 'client' } as const;
  return async ({ kind, txnId }) => {
    const until = performance.now() + limitMs;
    const isPosted = await inSpan(span, () => ask({ kind, txnId, until }));
    if (isPosted !== undefined) return isPosted;
    throw new DeadlineError(`the ledger was not asked within ${limitMs} ms`);
  };
}
