import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileOf } from './test/a-history.ts';
import { aCapturedHistory } from './test/a-true-history.ts';
import { checkHistory } from './check-history.ts';
import { type Asked, type HistoryEvent, parseHistory } from './history.ts';

const check = (events: readonly HistoryEvent[]) => checkHistory(parseHistory(fileOf(events)));

test('a captured payment ends once, and its capture has a number of its events', () => {
  const found = (...how: Parameters<typeof aCapturedHistory>) =>
    check(aCapturedHistory(...how)).findings.map((each) => each.check);
  assert.deepEqual(found(), []);
  assert.ok(found('capture.succeeded').includes('sequence-gap'));
  const [lacks, changed] = [found('payment.captured'), found(undefined, 'canceled')];
  assert.ok(lacks.includes('webhook-missing') && changed.includes('final-changed'));
  // What was authorised and not captured can never be given back.
  assert.deepEqual(found(undefined, undefined, 7), ['refund-exceeds', 'refunded-differs']);
});

test('what a capture asks for is known by its body, as of a refund', () => {
  const events = aCapturedHistory();
  const captures = events.filter((each) => each.what === 'asked' && each.kind === 'capture');
  const again = (body: string, status: number) => {
    const n = 90 + status;
    const ask = { ...(captures[0] as Asked), n, body };
    const answer = { what: 'answered', at: 9, n, status, body: '{}' } as const;
    return check([...events.slice(0, -1), ask, answer, events.at(-1)!]);
  };
  assert.deepEqual(again('{"amount":7}', 422).findings, []);
  // The gateway would have refused it.
  for (const body of ['{"reason":"none"}', '{"amount":0}']) {
    assert.deepEqual(again(body, 400).findings, []);
    assert.ok(!again(body, 202).ok);
  }
});
