import { Problem } from '@triplock/contracts';
import { databaseErrorKind } from '@triplock/postgres';
import type { Logger } from '@triplock/runtime';
import { unknownYet } from './story-problems.ts';
import { startBudget } from './time-budget.ts';

/** What asking a store for a route needs. */
export type AskParts = {
  logger: Logger;
  /** How long it may take before it is answered with a 503, milliseconds. */
  budgetMs: number;
};

/**
 * What a store answers, in time.
 *
 * @throws Problem `unavailable` when it is away or late; what was asked for may have happened.
 */
export async function askStore<Result>(
  { logger, budgetMs }: AskParts,
  { what, work }: { what: string; work: Promise<Result> },
): Promise<Result> {
  try {
    return await startBudget(budgetMs).hold(work, what);
  } catch (error) {
    if (error instanceof Problem || databaseErrorKind(error) !== 'transient') throw error;
    logger.warn({ err: error, what }, 'a store did not answer');
    throw unknownYet();
  }
}
