import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { runScenarios } from './run-scenarios.ts';
import type { Scenario } from './scenarios/scenario.ts';
import type { System } from './system.ts';

const about = { failure: 'it fails', absorbedBy: 'guard 1' };
const guards = { claims: '', ledger: '', inbox: '', webhook: '' };
const holds: Scenario = { name: 'holds', ...about, run: async () => ({ ids: [], guards }) };

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
