import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownMs, type ReservedFollowUp } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import type { CreateOutcome, Unknown } from '@triplock/provider';
import { createCrashPoints, createLogger, createMetrics, openSlots } from '@triplock/runtime';
import { aPayment, aRefund } from '@triplock/testing';
import { finishForBatch } from './in-flight.ts';
import { workerMetrics } from '../metrics.ts';
import { traceparent } from '../test/pipeline.ts';
import type { Worker } from '../worker.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A worker, whose provider answers as asked and then refuses, which settles. */
function aWorker(handOverMs = 5_000, slotsMax = 1) {
  const asked: string[] = [];
  const answers = new Map<string, Pick<Unknown, 'sent' | 'retryAfterMs'>[]>();
  const names = new Map<string, string>();
  const answering = new Map<string, Promise<void>>();
  const payments = new Map<string, AcceptedPayment>();
  const createIntent = async ({ txnId }: { txnId: string }): Promise<CreateOutcome> => {
    asked.push(names.get(txnId)!);
    await answering.get(names.get(txnId)!);
    const next = answers.get(txnId)!.shift();
    const error = new Error('the provider did not answer');
    if (next !== undefined) return { outcome: 'unknown', error, kept: false, ...next };
    return { outcome: 'refused', failure: { code: 'no', message: 'no' } };
  };
  const find = async (txnId: string) => {
    const row = { state: 'pending', version: 1, amountRefunded: 0n, settledAt: null } as const;
    return { ...payments.get(txnId)!, ...row };
  };
  const at = {
    name: 'stripe',
    provider: { createIntent },
    slots: openSlots(slotsMax),
    outlasting: new Set(),
  };
  const worker = {
    ledger: { find, settle: async () => ({ outcome: 'settled' }) },
    providers: { named: () => at },
    inFlight: new Set(),
    limits: { postRowsMax: 1, slotWaitMs: handOverMs, handOverMs, actionExpiresMs: 86_400_000 },
    metrics: workerMetrics(createMetrics('test')),
    crashPoints: createCrashPoints(),
    logger,
  } as unknown as Worker;
  const ask = (name: string, ...unknown: Pick<Unknown, 'sent' | 'retryAfterMs'>[]) =>
    askFor('acme', name, ...unknown);
  const askFor = (
    partner: string,
    name: string,
    ...unknown: Pick<Unknown, 'sent' | 'retryAfterMs'>[]
  ) => {
    const payment = aPayment({ partner, paymentMethod: 'pm_card_visa' });
    answers.set(payment.txnId, unknown);
    names.set(payment.txnId, name);
    payments.set(payment.txnId, payment);
    return finishForBatch(worker, { kind: 'payment', payment, traceparent, posted: 'now' });
  };
  const drain = async () => void (await Promise.all(worker.inFlight));
  return { worker, at, ask, askFor, asked, answering, slots: at.slots, drain };
}

test('a provider that wants to be left alone for an hour has it, and no slot is kept for it', async () => {
  const { ask, slots, drain } = aWorker();
  assert.equal(await ask('first', { sent: true, retryAfterMs: 3_600_000 }), 'handed-over');
  await drain();
  assert.equal(slots.free(), 1);
});

test('what rests before it asks again leaves its slot to others, and has one when it asks', async () => {
  const { ask, asked, slots, drain } = aWorker();
  assert.equal(await ask('first', { sent: true }), 'handed-over');
  assert.equal(await ask('second'), 'declined');
  await drain();
  assert.deepEqual(asked, ['first', 'second', 'first']);
  assert.equal(slots.free(), 1);
});

test('a batch waits for what the provider is soon to be asked', async () => {
  const { ask, asked, slots } = aWorker();
  assert.equal(await ask('first', { sent: false, retryAfterMs: 10 }), 'declined');
  assert.deepEqual([asked, slots.free()], [['first', 'first'], 1]);
});

test('the second try of a refund looks for what the first may have done before it asks again', async () => {
  const { worker, at, drain } = aWorker();
  const calls: string[] = [];
  const given = [{ outcome: 'none' }, { outcome: 'succeeded', refundId: 're_1' }];
  const payment = aPayment({ paymentMethod: 'pm_card_visa' });
  const accepted = aRefund(payment, { amount: 1n });
  const row = { ...accepted, state: 'pending', version: 2, settledAt: null } as const;
  const provider = { name: 'stripe', intentId: 'pi_1', chargeId: 'ch_1' } as const;
  const refund = { ...row, money: payment.details.money, provider } as ReservedFollowUp;
  const askedForRefund = {
    findRefund: async () => {
      calls.push('look');
      return given.shift();
    },
    refund: async () => {
      calls.push('ask');
      return { outcome: 'unknown', error: new Error('reset'), kept: false, sent: true };
    },
  };
  const asking = {
    ...worker,
    followUps: {
      find: async () => refund,
      settle: async () => ({ outcome: 'settled' }),
    },
    providers: { named: () => ({ ...at, provider: askedForRefund }) },
  } as unknown as Worker;
  const work = { kind: 'follow-up', followUp: refund, traceparent, asked: 'never' } as const;
  assert.equal(await finishForBatch(asking, work), 'handed-over');
  await drain();
  assert.deepEqual(calls, ['ask', 'look', 'look']);
});

test('a batch that goes on before there is a slot has its work done when there is one', async () => {
  const { ask, asked, slots, drain } = aWorker(20);
  await slots.take();
  assert.equal(await ask('first'), 'handed-over');
  slots.release();
  await drain();
  assert.deepEqual([asked, slots.free()], [['first'], 1]);
});

test('what has no slot until its row is about to be due is left to the resolver', async (context) => {
  const { ask, asked, slots, drain } = aWorker(20);
  await slots.take();
  assert.equal(await ask('first'), 'handed-over');
  const now = performance.now.bind(performance);
  context.mock.method(performance, 'now', () => now() + ownMs);
  slots.release();
  await drain();
  assert.deepEqual([asked, slots.free()], [[], 1]);
});

test('partners have slots in turn, however much of another waits', async () => {
  const { ask, askFor, asked, slots, drain } = aWorker(20);
  await slots.take();
  const crowd = ['1', '2', '3', '4'].map((name) => askFor('acme', name));
  assert.deepEqual(await Promise.all([...crowd, askFor('globex', 'other')]), [
    ...crowd.map(() => 'handed-over'),
    'handed-over',
  ]);
  slots.release();
  await drain();
  assert.deepEqual(asked, ['1', 'other', '2', '3', '4']);
  assert.equal(await ask('last'), 'declined');
});

test('where very much waits for slots a batch waits for one too, but for a partner of whom little does', async () => {
  const { worker, askFor, slots, drain } = aWorker(0);
  worker.limits.slotWaitMs = 300_000;
  await slots.take();
  const queued = Array.from({ length: 2_000 }, (_, n) => askFor('acme', `crowd ${n}`));
  await Promise.all(queued);
  const one = askFor('acme', 'one more');
  assert.equal(await askFor('globex', 'other'), 'handed-over');
  assert.equal(await Promise.race([one, Promise.resolve('waits')]), 'waits');
  slots.release();
  await Promise.all([one, drain()]);
});

test('behind a charge that outlasts its batch no batch waits, until it has ended', async () => {
  const { worker, ask, asked, answering, drain } = aWorker(20, 2);
  const slow = Promise.withResolvers<void>();
  for (const name of ['first', 'second']) answering.set(name, slow.promise);
  assert.equal(await ask('first'), 'handed-over');
  worker.limits.handOverMs = 300_000;
  assert.equal(await ask('second'), 'handed-over');
  slow.resolve();
  await drain();
  assert.equal(await ask('third'), 'declined');
  assert.deepEqual(asked, ['first', 'second', 'third']);
});
