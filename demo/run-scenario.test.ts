import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { UsageError } from '@triplock/command';
import { knownScenarios, missingGuardNames } from '@triplock/inspect';
import { type Scenario, type ScenarioReport, renderOutcome, runScenarios } from './run-scenario.ts';
import { allScenarios, chooseScenarios, nearestName, storyScenarios } from './scenarios/all.ts';
import { sumSeries } from './services.ts';
import type { System } from './system.ts';
import { BrokenPromise, until } from './promises.ts';
import { chooseGuard, listScenarios, missingGuards } from './without/missing-guards.ts';

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

test('a wait gives the state that it waited for, whatever failed before', async () => {
  let asked = 0;
  const check = async () => {
    asked += 1;
    if (asked === 1) throw new Error('not up yet');
    return asked === 3 && 'there';
  };
  assert.equal(await until({ what: 'it', check }), 'there');
});

test('a wait in vain says for what, and why the last look failed', async () => {
  const check = () => Promise.reject(new Error('refused'));
  await assert.rejects(until({ what: 'the webhook', check, withinMs: 1 }), (error: Error) => {
    return /in vain for the webhook/.test(error.message) && /refused/.test(String(error.cause));
  });
});

test('a wait lasts as long as there is progress', async () => {
  let step = 0;
  const check = async () => (step += 1) >= 4;
  assert.equal(await until({ what: 'it', check, withinMs: 150, progress: () => step }), true);
});

test('a broken promise and Ctrl-C end a wait at once', async () => {
  const broken = () => Promise.reject(new BrokenPromise('one effect', ['id']));
  await assert.rejects(until({ what: 'it', check: broken }), BrokenPromise);
  const signal = AbortSignal.abort();
  await assert.rejects(until({ what: 'it', check: async () => false, signal }), {
    name: 'AbortError',
  });
});

const metrics = `# HELP events_total Events
# TYPE events_total counter
events_total{outcome="applied",service="partner-notifier"} 40
events_total{outcome="duplicate",service="partner-notifier"} 2
events_total{outcome="duplicate",kind="late",service="partner-notifier"} 1.5e1
events_total_other{outcome="duplicate"} 9
plain_total 3
`;

test('a counter is the sum of its series that carry the labels', () => {
  assert.equal(sumSeries(metrics, { name: 'events_total', labels: { outcome: 'duplicate' } }), 17);
  assert.equal(sumSeries(metrics, { name: 'events_total' }), 57);
  assert.equal(sumSeries(metrics, { name: 'plain_total' }), 3);
});

test('a counter without a series yet is 0', () => {
  assert.equal(sumSeries(metrics, { name: 'events_total', labels: { outcome: 'early' } }), 0);
});

const failures = [
  'retry',
  'claim-expired',
  'two-at-once',
  'worker-killed',
  'charged-not-settled',
  'charge-timed-out',
  'sticky-500',
  'worker-asleep',
  'customers-act',
  'declined-then-retried',
  'refund-storm',
  'captured-twice',
  'cancelled-or-captured',
  'captured-then-refunded',
  'disputed',
  'dispatcher-killed',
  'downstream-replayed',
  'redelivered-out-of-order',
  'claims-forgotten',
  'claims-read-back',
  'claims-lost-in-a-card',
  'keys-race-claims-loss',
  'was-it-paid',
  'kafka-replayed',
  'accepted-lost',
];

test('every failure of the pipeline has a scenario', () => {
  assert.deepEqual(
    allScenarios.map(({ name }) => name),
    failures,
  );
});

test('a scenario says what fails and which guard absorbs it, and of one loss who sees it', () => {
  for (const { failure, absorbedBy } of allScenarios) {
    assert.ok(failure.length > 20);
    assert.match(absorbedBy, /^(guard [123]|no guard: the audit names)/);
  }
  const unguarded = allScenarios.filter(({ absorbedBy }) => absorbedBy.startsWith('no guard'));
  assert.deepEqual(
    unguarded.map(({ name }) => name),
    ['accepted-lost'],
  );
});

test('the story tells some of them, in the same order', () => {
  assert.deepEqual(
    storyScenarios,
    allScenarios.filter((each) => storyScenarios.includes(each)),
  );
});

test('one is chosen by its name, and all by --all', () => {
  assert.deepEqual(
    chooseScenarios('retry', false).map(({ name }) => name),
    ['retry'],
  );
  assert.equal(chooseScenarios(undefined, true), allScenarios);
});

test('an unclear choice is refused with the names', () => {
  for (const [name, all] of [
    ['rety', false],
    [undefined, false],
  ] as const) {
    assert.throws(
      () => chooseScenarios(name, all),
      (error) => {
        return error instanceof UsageError && error.message.includes('worker-killed');
      },
    );
  }
  assert.throws(() => chooseScenarios('retry', true), UsageError);
});

const names = ['retry', 'two-at-once', 'worker-killed', 'worker-asleep', 'smoke'];

test('a slip of the finger and a beginning are understood, another word is not', () => {
  const meant = (word: string) => nearestName(word, names);
  assert.equal(meant('wrker-killed'), 'worker-killed');
  assert.equal(meant('worker-asleap'), 'worker-asleep');
  assert.equal(meant('Retry'), 'retry');
  assert.equal(meant('smok'), 'smoke');
  assert.equal(meant('two'), 'two-at-once');
  assert.equal(meant('everything'), undefined);
  assert.equal(meant('xy'), undefined);
});

test('the console shows every scenario there is, and every guard that one can go without', () => {
  const list = 'npm run scenario -- --list --json > libs/inspect/scenarios.json';
  assert.deepEqual(knownScenarios(), listScenarios(), list);
  for (const name of missingGuardNames()) assert.equal(chooseGuard(name).name, name);
  assert.equal(missingGuardNames().length, missingGuards.length);
});
