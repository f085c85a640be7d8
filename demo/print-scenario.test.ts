import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderOutcome } from './print-scenario.ts';
import type { ScenarioReport } from './run-scenario.ts';

const report: ScenarioReport = {
  name: 'retry',
  failure: 'a partner sends the same payment again',
  absorbedBy: 'guard 1',
  held: true,
  did: [],
  tookMs: 1_234,
};

test('an outcome has one line for each guard, by its name', () => {
  const guards = { claims: 'same bytes', ledger: '1 row', inbox: '1 copy', webhook: '1 webhook' };
  const lines = renderOutcome({ ...report, observation: { ids: ['id'], guards } });
  assert.deepEqual(lines, [
    '   guard 1 claims  same bytes',
    '   guard 2 ledger  1 row',
    '   guard 3 inbox   1 copy',
    '   webhook         1 webhook',
    '   ✔ held in 1.2 s',
  ]);
});

test('what broke is shown with its payments and where the logs are', () => {
  const broken = { why: 'broken promise: one effect', ids: ['id'], logs: '/home/logs' };
  const text = renderOutcome({ ...report, held: false, broken }).join('\n');
  assert.match(text, /✘ broken promise: one effect\n {5}payments: id\n {5}logs: \/home\/logs/);
});
