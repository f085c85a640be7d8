import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Ledger, Posting } from '@triplock/ledger';
import { createMetrics } from '@triplock/runtime';
import { aPayment, eventually, freePort, startService } from '@triplock/testing';
import { workerMetrics } from '../metrics.ts';
import { bisectBatch, openPosting, type PostLimits, type PostResult } from './posting.ts';
import { aPipeline, ledgerCounts, recordOf } from '../test/pipeline.ts';

const postingsOf = (count: number): Posting[] =>
  Array.from({ length: count }, () => ({ payment: aPayment(), traceparent: 't' }));

/** Names the posting in its result, so that a result that went astray is seen. */
const resultOf = ({ payment }: Posting): PostResult => ({
  outcome: 'unpostable',
  detail: payment.txnId,
});

/** Posting to a ledger whose statements end on demand. */
function aPosting(limits: PostLimits) {
  const statements: { rows: number; end(error?: Error): void }[] = [];
  const post = (postings: readonly Posting[]) =>
    new Promise((resolve, reject) => {
      const end = (error?: Error) => (error ? reject(error) : resolve(postings.map(resultOf)));
      statements.push({ rows: postings.length, end });
    });
  const metrics = workerMetrics(createMetrics('test'));
  return { post: openPosting({ ledger: { post } as Ledger, metrics }, limits), statements };
}

/** Lets everything that can happen without a statement's end happen. */
async function settled(): Promise<void> {
  for (let cycle = 0; cycle < 5; cycle += 1) await new Promise<void>((done) => setImmediate(done));
}

test('what comes while statements are under way goes together in the next, each answer to its asker', async () => {
  const { post, statements } = aPosting({ rowsMax: 500, statementsMax: 1 });
  const first = post(postingsOf(1));
  await settled();
  const requests = Array.from({ length: 12 }, (_, n) => postingsOf(n + 1));
  const answers = requests.map((postings) => post(postings));
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

test('no statement is larger than the limit, no call is split, and no more are under way than the limit', async () => {
  const { post, statements } = aPosting({ rowsMax: 10, statementsMax: 2 });
  const answers = [6, 4, 1, 10, 7].map((count) => post(postingsOf(count)));
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
  const { post, statements } = aPosting({ rowsMax: 500, statementsMax: 1 });
  const together = [post(postingsOf(2)), post(postingsOf(3))];
  await settled();
  const later = post(postingsOf(1));
  statements[0]!.end(new Error('the database is away'));
  for (const each of together) await assert.rejects(each, /is away/);
  await settled();
  statements[1]!.end();
  assert.equal((await later).length, 1);
});

class BadItemError extends Error {}

/** Runs batches of numbers, of which some are bad, and counts the runs. */
function numbers(bad: ReadonlySet<number>) {
  const done: number[] = [];
  const counted = { runs: 0 };
  const run = async (items: readonly number[]) => {
    counted.runs += 1;
    if (items.some((item) => bad.has(item))) throw new BadItemError();
    done.push(...items);
    return items.map((item) => `did ${item}`);
  };
  const blame = (error: unknown) => (error instanceof BadItemError ? 'bad' : undefined);
  return { attempt: { run, blame }, done, counted };
}

test('whichever items are bad, every other is done once and in order', async () => {
  const batch = fc.uniqueArray(fc.nat(200), { minLength: 1, maxLength: 64 });
  await fc.assert(
    fc.asyncProperty(batch, fc.array(fc.nat(200)), async (items, some) => {
      const bad = new Set(some);
      const { attempt, done } = numbers(bad);
      const results = await bisectBatch(items, attempt);
      assert.deepEqual(
        results,
        items.map((item) => (bad.has(item) ? 'bad' : `did ${item}`)),
      );
      assert.deepEqual(
        done,
        items.filter((item) => !bad.has(item)),
      );
    }),
  );
});

test('one bad item among 500 costs at most 19 runs, none costs one', async () => {
  const items = Array.from({ length: 500 }, (_, n) => n);
  for (const at of [0, 249, 250, 499]) {
    const { attempt, counted } = numbers(new Set([at]));
    await bisectBatch(items, attempt);
    assert.ok(counted.runs <= 19, `${counted.runs} runs`);
  }
  const { attempt, counted } = numbers(new Set());
  await bisectBatch(items, attempt);
  assert.equal(counted.runs, 1);
});

test('an error that is no item’s fault ends it at once', async () => {
  let runs = 0;
  const run = async () => {
    runs += 1;
    throw new Error('the database is away');
  };
  await assert.rejects(bisectBatch([1, 2, 3], { run, blame: () => undefined }), /is away/);
  assert.equal(runs, 1);
});

test('a worker whose ledger answers and takes no writes is not ready until it takes them', async (context) => {
  const { settings, owner, append } = await aPipeline(context);
  const env = { ...settings, ADMIN_PORT: String(await freePort()) };
  const worker = startService(context, new URL('../main.ts', import.meta.url), env);
  await worker.ready();
  await owner.query(`
    CREATE FUNCTION ledger.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE 'No space left on device' USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON ledger.transactions EXECUTE FUNCTION ledger.refuse()`);
  await append(recordOf(aPayment()));
  await eventually(async () => {
    const ready = await worker.admin('/readyz');
    return ready.status === 503 && /takes no writes.*No space left/.test(await ready.text());
  });
  await owner.query('DROP TRIGGER full_disk ON ledger.transactions');
  await worker.ready();
  assert.equal((await ledgerCounts(owner)).rows, 1);
  assert.equal((await worker.terminate()).exitCode, 0);
});
