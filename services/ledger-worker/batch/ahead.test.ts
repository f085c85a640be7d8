import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment, aRefund, eventually, longestFields, type PaymentWish } from '@triplock/testing';
import type { ReceivedRecord } from '@triplock/transport';
import {
  aPipeline,
  ledgerCounts,
  outcomesOf,
  recordOf,
  refundRecordOf,
  type WorkerWish,
} from '../test/pipeline.ts';

const limits = {
  leftMax: 5,
  behindMin: 5,
  readMax: 1_000,
  readBytesMax: 1_000_000,
  perPartnerMax: 3,
  perPartnerBytesMax: 100_000,
  bytesMax: 1_000_000,
};

/** The texts of its payments, and what its worker is to do otherwise. */
type Backlog = { texts?: PaymentWish; ahead?: typeof limits; onAhead?: WorkerWish['onAhead'] };

/**
 * A backlog of acme's with little of globex's behind it, and a worker that stands before it and has
 * read ahead once.
 */
async function aBacklog(
  context: Parameters<typeof aPipeline>[0],
  { texts = {}, ...wish }: Backlog = {},
) {
  const pipeline = await aPipeline(context);
  const much = Array.from({ length: 40 }, () => aPayment(texts));
  const little = Array.from({ length: 2 }, () => aPayment({ ...texts, partner: 'globex' }));
  const refund = aRefund(little[0]!, { amount: 1n, partner: 'globex' });
  for (const payment of [...much, ...little]) await pipeline.append(recordOf(payment));
  await pipeline.append(refundRecordOf(refund));
  const begin = Promise.withResolvers<void>();
  context.after(() => begin.resolve());
  const worker = pipeline.work({ ahead: limits, ...wish, until: begin.promise });
  const posted = async () => {
    const all = await Promise.all(
      [...much, ...little].map(({ txnId }) => worker.ledger.find(txnId)),
    );
    return all.map((payment) => payment?.state === 'succeeded');
  };
  const done = await eventually(async () => (await worker.ahead.pass()) || undefined);
  return { ...pipeline, worker, much, little, refund, begin, posted, done };
}

test('while a worker is behind, as many of one partner as of another are done before their turn', async (context) => {
  const { worker, posted, done, refund } = await aBacklog(context);
  assert.equal(done, 5);
  const isDone = await posted();
  // What its own reader has in a moment is left to it; then the first three, and all of the other.
  const expected = isDone.map((_, n) => (n >= 5 && n < 8) || n >= 40);
  assert.deepEqual(isDone, expected);
  assert.equal(await worker.followUps.find(refund.txnId), undefined, 'its order is its payment’s');
  assert.equal(await worker.ahead.pass(), 0, 'what was read ahead is read so once');
});

test('of large payments a pass reads as much as is enough, takes a part of each partner, and keeps nothing of the others', async (context) => {
  const { reference, description, metadata } = longestFields;
  const taken: ReceivedRecord[] = [];
  const { worker, posted, done } = await aBacklog(context, {
    texts: { reference, description, metadata },
    // One fetch; and two payments, of which each has 43 KB.
    ahead: { ...limits, readBytesMax: 1, perPartnerMax: 100 },
    onAhead: (records) => void taken.push(...records),
  });
  assert.equal(done, 2);
  const passes = [done];
  for (let more; (more = await worker.ahead.pass()) > 0;) passes.push(more);
  assert.equal(passes.length > 1 && Math.max(...passes) <= 4, true, String(passes));
  assert.deepEqual((await posted()).slice(40), [true, true]);
  // A buffer of its own size is no part of a larger one.
  assert.equal(
    taken.every(({ value }) => value!.buffer.byteLength === value!.length),
    true,
  );
});

test('what was done before its turn is not done again, and every record has one outcome', async (context) => {
  const { worker, begin, owner, refund } = await aBacklog(context);
  begin.resolve();
  await worker.allCommitted();
  assert.deepEqual(outcomesOf(worker), { posted: 42, refunded: 1 });
  assert.equal((await worker.followUps.find(refund.txnId))?.state, 'succeeded');
  assert.deepEqual(await ledgerCounts(owner), { rows: 43, entries: 43, events: 43 });
});

test('a worker that knows nothing of what another one did ahead finds it in the ledger', async (context) => {
  const { worker, begin, owner, work } = await aBacklog(context);
  const closed = worker.consumer.close();
  begin.resolve();
  await closed;
  const next = work();
  await next.allCommitted();
  assert.equal(outcomesOf(next)['already-recorded']! >= 5, true);
  assert.deepEqual(await ledgerCounts(owner), { rows: 43, entries: 43, events: 43 });
});

test('what was done before its turn, and is lacking on another server of the ledger, is done in its turn', async (context) => {
  const { worker, begin, owner, refund } = await aBacklog(context);
  // As on a standby that was behind. Its tables have other files, and so it is another server.
  await owner.transaction(async (tx) => {
    await tx.query('SET LOCAL session_replication_role = replica');
    for (const table of ['outbox', 'entries', 'transactions']) {
      await tx.query(`DELETE FROM ledger.${table}`);
    }
  });
  await owner.query('VACUUM FULL ledger.continuity');
  await owner.query(
    'UPDATE ledger.continuity SET server = ledger.this_server(), posted_on = ledger.this_server()',
  );
  begin.resolve();
  await worker.allCommitted();
  assert.deepEqual(await ledgerCounts(owner), { rows: 43, entries: 43, events: 43 });
  assert.equal((await worker.followUps.find(refund.txnId))?.state, 'succeeded');
});

test('who is not behind reads nothing ahead, and of what moved to another worker nothing is done', async (context) => {
  const { append, work } = await aPipeline(context);
  for (let n = 0; n < 9; n += 1) await append(recordOf(aPayment()));
  const begin = Promise.withResolvers<void>();
  const worker = work({ ahead: limits, until: begin.promise });
  worker.ahead.at({ partition: 0, next: 0n, end: 9n });
  assert.equal(await worker.ahead.pass(), 0);
  worker.ahead.at({ partition: 0, next: 0n, end: 9n + 100n });
  worker.ahead.assigned([]);
  assert.equal(await worker.ahead.pass(), 0);
  begin.resolve();
  await worker.allCommitted();
  assert.deepEqual(outcomesOf(worker), { posted: 9 });
});
