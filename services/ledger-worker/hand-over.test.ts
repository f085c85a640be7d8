import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment } from '@triplock/testing';
import type { Unknown } from '@triplock/provider';
import { createLogger, createMetrics } from '@triplock/runtime';
import { askUntilKnown } from './ask-until-known.ts';
import { openHandOver } from './hand-over.ts';
import { workerMetrics } from './metrics.ts';
import { openPlaces } from './places.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** Work for one place that asks a provider, which answers as told and then charges. */
function anAsker(handOverMs = 5_000) {
  const places = openPlaces(1);
  const metrics = workerMetrics(createMetrics('test'));
  const handOver = openHandOver({ places, handOverMs, logger });
  const asked: string[] = [];
  const ask = (name: string, ...unknown: Pick<Unknown, 'sent' | 'retryAfterMs'>[]) => {
    const transaction = aPayment();
    const answers = unknown.values();
    const attempt = async () => {
      asked.push(name);
      const told = answers.next().value;
      const error = new Error('the provider said nothing');
      return told ? { outcome: 'unknown' as const, error, kept: false, ...told } : 'charged';
    };
    return handOver.inTime(transaction.txnId, (turn) =>
      askUntilKnown({ handOverMs, metrics, logger }, { transaction, attempt, turn }),
    );
  };
  return { ask, asked, places, close: () => handOver.close() };
}

test('a provider that wants to be left alone for an hour has it, and no place is kept for it', async () => {
  const { ask, places, close } = anAsker();
  assert.equal(await ask('first', { sent: true, retryAfterMs: 3_600_000 }), 'handed-over');
  await close();
  assert.equal(places.free(), 1);
});

test('what rests before it asks again leaves its place to others, and has one when it asks', async () => {
  const { ask, asked, places, close } = anAsker();
  assert.equal(await ask('first', { sent: true }), 'handed-over');
  assert.equal(await ask('second'), 'charged');
  await close();
  assert.deepEqual(asked, ['first', 'second', 'first']);
  assert.equal(places.free(), 1);
});

test('a batch waits for what the provider is soon to be asked', async () => {
  const { ask, asked, places } = anAsker();
  assert.equal(await ask('first', { sent: false, retryAfterMs: 10 }), 'charged');
  assert.deepEqual([asked, places.free()], [['first', 'first'], 1]);
});
