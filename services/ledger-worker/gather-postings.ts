import type { Posting } from '@triplock/ledger';
import type { PostBatch, PostResult } from './post-batch.ts';

/** `rowsMax` payments go by one statement, `statementsMax` statements at once. */
export type GatherLimits = { rowsMax: number; statementsMax: number };

type Request = {
  postings: readonly Posting[];
  resolve(results: PostResult[]): void;
  reject(error: unknown): void;
};

/**
 * Lets partitions share statements: the records of a dozen partitions come in small batches at
 * once, and a statement costs the same for five payments as for fifty. While statements are under
 * way, postings gather for the next; nothing waits while nothing is under way. What went together
 * fails together, and each partition then tries its own again.
 *
 * A request is never split, so it should itself stay within `rowsMax`.
 */
export function gatherPostings(postBatch: PostBatch, limits: GatherLimits): PostBatch {
  const waiting: Request[] = [];
  let underWay = 0;

  const startStatements = () => {
    while (waiting.length > 0 && underWay < limits.statementsMax) {
      underWay += 1;
      void postGroup(postBatch, takeGroup(waiting, limits.rowsMax)).then(() => {
        underWay -= 1;
        startStatements();
      });
    }
  };
  return (postings) =>
    new Promise((resolve, reject) => {
      waiting.push({ postings, resolve, reject });
      // After this turn of the event loop, so that what was fetched together goes together.
      if (waiting.length === 1) setImmediate(startStatements);
    });
}

function takeGroup(waiting: Request[], rowsMax: number): Request[] {
  let rows = 0;
  const over = waiting.findIndex(({ postings }, n) => (rows += postings.length) > rowsMax && n > 0);
  return waiting.splice(0, over === -1 ? waiting.length : over);
}

async function postGroup(postBatch: PostBatch, group: readonly Request[]): Promise<void> {
  try {
    const results = await postBatch(group.flatMap(({ postings }) => postings));
    let from = 0;
    for (const { postings, resolve } of group) {
      resolve(results.slice(from, from + postings.length));
      from += postings.length;
    }
  } catch (error) {
    for (const { reject } of group) reject(error);
  }
}
