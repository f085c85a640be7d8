import assert from 'node:assert/strict';
import { test } from 'node:test';
import { figuresOf } from './cost-sheet.ts';
import { renderReport } from './report.ts';
import { aRepetition } from '../test/repetition.ts';
import type { BenchReport } from './run-bench.ts';

const repetitions = [
  aRepetition({ accepted: 1_000, serviceMicros: 50_000, emptyMicros: [40, 60] }),
];
const counts = {} as BenchReport['audit']['counts'];
const report: BenchReport = {
  ok: true,
  rig: {
    cpu: 'A fast one',
    cores: 2,
    memoryGiB: 24,
    os: 'Linux 6',
    node: 'v24.0.0',
    commit: 'abcdef0',
    loadBefore: 0.25,
    at: '2026-01-01T00:00:00.000Z',
  },
  settings: { seconds: 20, connections: 64, repeat: 1, replicas: 1 },
  figures: figuresOf(repetitions),
  audit: { ok: true, counts: { ...counts, accepted: 1_000 }, drift: [] },
  repetitions,
};

test('the sheet tells the rig, every service, both ratios and the audit', () => {
  const text = renderReport(report).join('\n');
  assert.match(text, /A fast one, 2 cores, 24 GiB; Linux 6; Node v24\.0\.0; commit abcdef0/);
  assert.match(text, /1 × 20 s over 64 connections; 1 of each service/);
  assert.match(text, /ledger-worker +50\.0 +50\.0 +50\.0 +0\.0 +100 +200/);
  assert.match(text, /until published +3\.00/);
  assert.match(text, /all services +6\.00/);
  assert.match(text, /no drift: all 1000 accepted/);
});

test('drift, and answers that were no 202, are told', () => {
  const [one] = repetitions;
  const load = { ...one!.system.load, others: { 503: 7 } };
  const text = renderReport({
    ...report,
    ok: false,
    audit: { ...report.audit, ok: false, drift: [{ check: 'delivery-waiting', ids: ['x'] }] },
    repetitions: [{ ...one!, system: { ...one!.system, load } }],
  }).join('\n');
  assert.match(text, /not accepted: 7 × 503/);
  assert.match(text, /drift: delivery-waiting/);
});
