import { UnpostableError, type Ledger, type Posting, type PostOutcome } from '@triplock/ledger';
import { inBatchSpan } from '@triplock/runtime';
import { bisectBatch } from './bisect-batch.ts';
import type { WorkerMetrics } from './metrics.ts';

/** What posting one payment came to; `unpostable`: no ledger will ever store it. */
export type PostResult = PostOutcome | { outcome: 'unpostable'; detail: string };

/** Posts payments and returns, in the same order, what came of each. @throws in an outage. */
export type PostBatch = (postings: readonly Posting[]) => Promise<PostResult[]>;

/** Posts by one statement, and only when one of the batch can never be stored by several. */
export function createPostBatch(parts: {
  ledger: Pick<Ledger, 'post'>;
  metrics: WorkerMetrics;
}): PostBatch {
  const { ledger, metrics } = parts;
  const run = async (postings: readonly Posting[]): Promise<PostResult[]> => {
    metrics.statementRows.observe(postings.length);
    const of = () => postings.map(({ traceparent }) => traceparent);
    return metrics.statementSeconds.time(
      () => inBatchSpan({ name: 'post batch', of }, () => ledger.post(postings)),
      () => 'done',
      'failed',
    );
  };
  return (postings) => bisectBatch(postings, { run, blame });
}

function blame(error: unknown): PostResult | undefined {
  if (!(error instanceof UnpostableError)) return undefined;
  return { outcome: 'unpostable', detail: error.message };
}
