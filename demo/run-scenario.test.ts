import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { renderOutcome, runScenarios, type Scenario, type ScenarioReport } from './run-scenario.ts';
import type { System } from './system.ts';

const about = { failure: 'it fails', absorbedBy: 'guard 1' };
const noGuards = { claims: '', ledger: '', inbox: '', webhook: '' };
const holds: Scenario = {
  name: 'holds',
  ...about,
  run: async () => ({ ids: [], guards: noGuards }),
};

test('all are run, and the last line tells how many held', async () => {
  const lines: string[] = [];
  const terminal = { line: (text = '') => lines.push(stripVTControlCharacters(text)) };
  const system = {} as System;
  const reports = await runScenarios([holds, { ...holds, name: 'too' }], { system, terminal });
  assert.deepEqual(
    reports.map(({ name, held }) => [name, held]),
    [
      ['holds', true],
      ['too', true],
    ],
  );
  assert.match(lines.at(-1)!, /^2 of 2 held, in /);
});

const printed: ScenarioReport = {
  name: 'retry',
  failure: 'a partner sends the same payment again',
  absorbedBy: 'guard 1',
  held: true,
  did: [],
  tookMs: 1_234,
};

test('an outcome has one line for each guard, by its name', () => {
  const guards = { claims: 'same bytes', ledger: '1 row', inbox: '1 copy', webhook: '1 webhook' };
  const lines = renderOutcome({ ...printed, observation: { ids: ['id'], guards } });
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
  const text = renderOutcome({ ...printed, held: false, broken }).join('\n');
  assert.match(text, /✘ broken promise: one effect\n {5}payments: id\n {5}logs: \/home\/logs/);
});
