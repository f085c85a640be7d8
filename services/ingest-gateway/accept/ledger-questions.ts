import type { Ledger } from '@triplock/ledger';
import type { TransactionKind, TxnId } from '@triplock/payments';
import { DeadlineError, inBatches, inSpan, withDeadline } from '@triplock/runtime';

/** What the ledger is asked about. */
type Asked = { kind: TransactionKind; txnId: TxnId };

/** What is asked of the ledger in the place of claims that were lost. */
export type LedgerQuestions = {
  /**
   * Whether the ledger has it as one of this kind, asked after the call.
   *
   * @throws when the ledger does not answer, or was not asked in time.
   */
  isPosted(asked: Asked): Promise<boolean>;
  /**
   * The same for one who can do without it: nothing where the ledger does not answer at once, and
   * for some seconds after that.
   */
  isPostedSoon(asked: Asked): Promise<boolean | undefined>;
  /**
   * Any other question of one who can do without its answer, in the same way. It counts as none of
   * those above.
   */
  soon<Answer>(ask: () => Promise<Answer>): Promise<Answer | undefined>;
};

/** What a question came to. */
export type QuestionOutcome = 'posted' | 'not-posted' | 'unavailable';

type AskOptions = { limitMs: number; count: (outcome: QuestionOutcome) => void };

/** How many questions go together, and may wait. */
export type QuestionLimits = { itemsMax: number; batchesMax: number; waitingMax: number };

/**
 * Ids alone travel, so a statement of so many is a millisecond of the server, and whoever asks one
 * thing behind a partner that asks a thousand waits for some of them. Two statements at once: a
 * connection that stands still holds up those who share it, and not all.
 */
const usualLimits: QuestionLimits = { itemsMax: 200, batchesMax: 2, waitingMax: 10_000 };

// Ten times what an answer takes nearby, and a tenth of what a request has.
const soonMs = 250;
const distrustMs = 5_000;

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
  { limitMs, count, ...limits }: AskOptions & Partial<QuestionLimits>,
): LedgerQuestions {
  type Question = Asked & { until: number };
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
  const isPosted = async ({ kind, txnId }: Asked): Promise<boolean> => {
    const until = performance.now() + limitMs;
    const told = await inSpan(span, () => ask({ kind, txnId, until })).catch((error: unknown) => {
      count('unavailable');
      throw error;
    });
    count(told === undefined ? 'unavailable' : told ? 'posted' : 'not-posted');
    if (told === undefined)
      throw new DeadlineError(`the ledger was not asked within ${limitMs} ms`);
    return told;
  };
  let distrustedUntil = -Infinity;
  const soon = async <Answer>(asking: () => Promise<Answer>): Promise<Answer | undefined> => {
    if (performance.now() < distrustedUntil) return undefined;
    try {
      return await withDeadline(asking(), { ms: soonMs, what: 'the ledger' });
    } catch {
      // Whoever cannot do without it asks again, and has the error then.
      distrustedUntil = performance.now() + distrustMs;
      return undefined;
    }
  };
  return { isPosted, isPostedSoon: (asked) => soon(() => isPosted(asked)), soon };
}
