import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flowIn, newHistory, remember } from './flow-history.ts';
import { readFigures, type ProcessFigures } from './process-figures.ts';

const gateway = { name: 'ingest-gateway-1', url: 'http://127.0.0.1:1' };
const known = [gateway, { ...gateway, name: 'ingest-gateway-2' }];

function told(accepted: number, startedAt = 1): ProcessFigures {
  return readFigures(
    [
      `triplock_gateway_payments_total{outcome="accepted",service="ingest-gateway"} ${accepted}`,
      'triplock_gateway_payments_total{outcome="replayed",service="ingest-gateway"} 99',
      `triplock_duplicates_caught_total{guard="claims",service="ingest-gateway"} ${accepted / 2}`,
      `process_start_time_seconds{service="ingest-gateway"} ${startedAt}`,
      'process_cpu_seconds_total{service="ingest-gateway"} Nan',
      '# HELP triplock_gateway_payments_total hello',
    ].join('\n'),
  );
}

test('a rate is what all replicas counted since the look before, a restart included', () => {
  const begin = Date.now();
  let history = newHistory(known);
  history = remember(history, [told(1_000), told(500)], begin + 1_000);
  assert.equal(flowIn(history).perSecond.accepted, 0, 'what was before is no rate');
  history = remember(history, [told(1_100), told(500)], begin + 16_000);
  // One began anew at 0, and has counted 50 since.
  history = remember(history, [told(1_200), told(50, 2)], begin + 31_000);
  assert.equal(flowIn(history).perSecond.accepted, 10);
  assert.equal(flowIn(history).lastMinute.caughtByClaims, 50 + 50 + 25);
});

test('who does not answer is away since then, and the others go on', () => {
  const begin = Date.now();
  let history = newHistory(known);
  history = remember(history, [told(10), told(10)], begin + 2_000);
  history = remember(history, ['refused', told(20)], begin + 4_000);
  history = remember(history, ['refused', told(30)], begin + 6_000);
  const { processes, perSecond } = flowIn(history);
  assert.deepEqual(
    processes.map(({ is }) => is),
    ['away', 'up'],
  );
  const [away] = processes;
  assert.equal(away?.is === 'away' && away.since.getTime(), begin + 4_000);
  assert.ok(perSecond.accepted! > 0);
  history = remember(history, ['refused', 'refused'], begin + 8_000);
  assert.equal(flowIn(history).perSecond.accepted, null, 'nobody tells, which is not 0');
});

test('it remembers an hour, and says where that begins', () => {
  const begin = Date.now();
  let history = newHistory(known);
  for (let nth = 1; nth <= 400; nth += 1) {
    history = remember(history, [told(nth * 15), told(0)], begin + nth * 15_000);
  }
  const { hour, since } = flowIn(history);
  assert.equal(hour.length, 240);
  assert.equal(hour.at(-1)!.accepted, 1);
  assert.ok(since.getTime() <= begin);
  assert.ok(history.moments.length < 10, `${history.moments.length} are kept`);
});
