import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { UsageError } from '@triplock/infra';
import { runScenarios } from './run-scenarios.ts';
import { allScenarios } from './scenarios/all-scenarios.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { refuseUnfit, skipUnfit } from './scenarios/skip-unfit.ts';
import type { System } from './system.ts';

const why = 'claims are kept in postgres; this scenario needs redis: npm run up -- --claims redis';
const guards = { claims: '', ledger: '', inbox: '', webhook: '' };
const about = { failure: 'it fails', absorbedBy: 'guard 1' };
const ran: string[] = [];
const run = (name: string) => async () => {
  ran.push(name);
  return { ids: [], guards };
};
const anywhere: Scenario = { name: 'anywhere', ...about, run: run('anywhere') };
const inRedis: Scenario = {
  name: 'in-redis',
  ...about,
  needsClaims: 'redis',
  run: run('in-redis'),
};

test('those that do something to claims in Redis need them there, and no other does', () => {
  const unfit = (claims: 'redis' | 'postgres' | 'hybrid' | 'dynamodb') =>
    allScenarios.filter((each) => skipUnfit(each, { claims })).map(({ name }) => name);
  const needing = ['claim-expired', 'redis-flushed', 'keys-race-redis-loss'];
  assert.deepEqual(unfit('redis'), []);
  for (const store of ['postgres', 'hybrid', 'dynamodb'] as const) {
    assert.deepEqual(unfit(store), needing);
  }
});

test('one that was asked for by name is refused with the next step', () => {
  refuseUnfit(anywhere, { claims: 'postgres' });
  refuseUnfit(inRedis, { claims: 'redis' });
  assert.throws(
    () => refuseUnfit(inRedis, { claims: 'postgres' }),
    (error) => error instanceof UsageError && error.message === why,
  );
});

test('of all of them those are skipped, told of and not counted as held', async () => {
  const system = { endpoints: { claims: 'postgres' } } as System;
  const lines: string[] = [];
  const terminal = { line: (text = '') => lines.push(stripVTControlCharacters(text)) };
  const reports = await runScenarios([inRedis, anywhere], { system, terminal });
  assert.deepEqual(ran, ['anywhere']);
  assert.deepEqual(reports[0], { name: 'in-redis', ...about, skipped: why });
  assert.ok('held' in reports[1]! && reports[1].held);
  assert.ok(lines.includes(`   – skipped: ${why}`), lines.join('\n'));
  assert.match(lines.at(-1)!, /^1 of 1 held, 1 other skipped, in /);
});
