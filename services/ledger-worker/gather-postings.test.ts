import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Posting } from '@triplock/ledger';
import { aPayment } from '@triplock/testing';
import { gatherPostings } from './gather-postings.ts';
import type { PostBatch, PostResult } from './post-batch.ts';

const postingsOf = (count: number): Posting[] =>
  Array.from({ length: count }, () => ({ payment: aPayment(), traceparent: 't' }));

/** Names the posting in its result, so that a result that went astray is seen. */
const resultOf = ({ payment }: Posting): PostResult => ({
  outcome: 'unpostable',
  detail: payment.txnId,
});

/** A poster whose statements end when told. */
function stagedPoster() {
  const statements: { rows: number; end(error?: Error): void }[] = [];
  const post: PostBatch = (postings) =>
    new Promise((resolve, reject) => {
      const end = (error?: Error) => (error ? reject(error) : resolve(postings.map(resultOf)));
      statements.push({ rows: postings.length, end });
    });
  return { post, statements };
}

/** Lets everything that can happen without a statement's end happen. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise<void>((done) => setImmediate(done));
}

test('what comes while statements are under way goes together in the next, each answer to its asker', async () => {
  const { post, statements } = stagedPoster();
  const gathered = gatherPostings(post, { rowsMax: 500, statementsMax: 1 });
  const first = gathered(postingsOf(1));
  await settled();
  const requests = Array.from({ length: 12 }, (_, n) => postingsOf(n + 1));
  const answers = requests.map((postings) => gathered(postings));
  await settled();
  assert.deepEqual(
    statements.map(({ rows }) => rows),
    [1],
  );
  statements[0]!.end();
  await first;
  await settled();
  assert.deepEqual(
    statements.map(({ rows }) => rows),
    [1, 78],
  );
  statements[1]!.end();
  assert.deepEqual(
    await Promise.all(answers),
    requests.map((postings) => postings.map(resultOf)),
  );
});

test('no statement is larger than told, no request is split, and no more are under way than told', async () => {
  const { post, statements } = stagedPoster();
  const gathered = gatherPostings(post, { rowsMax: 10, statementsMax: 2 });
  const answers = [6, 4, 1, 10, 7].map((count) => gathered(postingsOf(count)));
  for (let ended = 0; ended < 4; ended += 1) {
    await settled();
    assert.ok(statements.length - ended <= 2);
    statements[ended]!.end();
  }
  await Promise.all(answers);
  assert.deepEqual(
    statements.map(({ rows }) => rows),
    [10, 1, 10, 7],
  );
});

test('a statement that fails fails those who were in it, and the next ones go on', async () => {
  const { post, statements } = stagedPoster();
  const gathered = gatherPostings(post, { rowsMax: 500, statementsMax: 1 });
  const together = [gathered(postingsOf(2)), gathered(postingsOf(3))];
  await settled();
  const later = gathered(postingsOf(1));
  statements[0]!.end(new Error('the database is away'));
  for (const each of together) await assert.rejects(each, /is away/);
  await settled();
  statements[1]!.end();
  assert.equal((await later).length, 1);
});
