import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createMetrics } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import { flowIn, newHistory, remember, type History } from './flow-history.ts';
import { watchFlow } from './flow.ts';
import { consoleMetrics } from '../metrics.ts';
import { type ProcessFigures, readFigures } from '@triplock/inspect';

const gateway = { name: 'ingest-gateway-1', url: 'http://127.0.0.1:1' };
const known = [gateway, { ...gateway, name: 'ingest-gateway-2' }];

/** As if each process that is known had been asked. */
function look(
  history: History,
  answers: readonly (ProcessFigures | string)[],
  at: number,
): History {
  const asked = known.map((each, nth) => ({ ...each, answer: answers[nth]! }));
  return remember(history, asked, at);
}

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
  history = look(history, [told(1_000), told(500)], begin + 1_000);
  assert.equal(flowIn(history).perSecond.accepted, 0, 'what was before is no rate');
  history = look(history, [told(1_100), told(500)], begin + 16_000);
  // One began anew at 0, and has counted 50 since.
  history = look(history, [told(1_200), told(50, 2)], begin + 31_000);
  assert.equal(flowIn(history).perSecond.accepted, 10);
  assert.equal(flowIn(history).lastMinute.caughtByClaims, 50 + 50 + 25);
});

test('who does not answer is away since then, and the others go on', () => {
  const begin = Date.now();
  let history = newHistory(known);
  history = look(history, [told(10), told(10)], begin + 2_000);
  history = look(history, ['refused', told(20)], begin + 4_000);
  history = look(history, ['refused', told(30)], begin + 6_000);
  const { processes, perSecond } = flowIn(history);
  assert.deepEqual(
    processes.map(({ is }) => is),
    ['away', 'up'],
  );
  const [away] = processes;
  assert.equal(away?.is === 'away' && away.since.getTime(), begin + 4_000);
  assert.ok(perSecond.accepted! > 0);
  history = look(history, ['refused', 'refused'], begin + 8_000);
  assert.equal(flowIn(history).perSecond.accepted, null, 'unknown, which is not 0');
});

test('what waits for a worker that was just killed is unknown until it was counted again', () => {
  const worker = { name: 'ledger-worker-1', url: 'http://127.0.0.1:2' };
  const auditor = { name: 'auditor-1', url: 'http://127.0.0.1:3' };
  const begin = Date.now();
  const counted = (at: number, records: number) =>
    readFigures(
      [
        `triplock_accepted_unread_records{service="auditor"} ${records}`,
        `triplock_accepted_oldest_unread_seconds{service="auditor"} ${records}`,
        `triplock_accepted_unread_timestamp_seconds{service="auditor"} ${at / 1_000}`,
      ].join('\n'),
    );
  let history = newHistory([worker, auditor]);
  const look = (worked: ProcessFigures | string, audited: ProcessFigures, afterMs: number) => {
    const asked = [
      { ...worker, answer: worked },
      { ...auditor, answer: audited },
    ];
    history = remember(history, asked, begin + afterMs);
    const { unread, unreadOldest } = flowIn(history).gauges;
    return [unread, unreadOldest];
  };
  const works = readFigures('triplock_worker_records_total{outcome="posted"} 1');
  assert.deepEqual(look(works, counted(begin, 0), 2_000), [0, 0]);
  assert.deepEqual(look('refused', counted(begin, 0), 4_000), [null, null], 'counted before that');
  assert.deepEqual(look('refused', counted(begin, 0), 14_000), [null, null]);
  assert.deepEqual(look('refused', counted(begin + 15_000, 7), 16_000), [7, 7]);
  assert.deepEqual(look(works, counted(begin + 15_000, 7), 18_000), [7, 7]);
  // An auditor that cannot reach Kafka goes on telling what it saw last.
  assert.deepEqual(look(works, counted(begin + 15_000, 7), 80_000), [null, null]);
  assert.deepEqual(look(works, readFigures(''), 82_000), [null, null]);
});

test('it remembers an hour, and says where that begins', () => {
  const begin = Date.now();
  let history = newHistory(known);
  for (let nth = 1; nth <= 400; nth += 1) {
    history = look(history, [told(nth * 15), told(0)], begin + nth * 15_000);
  }
  const { hour, since } = flowIn(history);
  assert.equal(hour.length, 240);
  assert.equal(hour.at(-1)!.accepted, 1);
  assert.ok(since.getTime() <= begin);
  assert.ok(history.moments.length < 10, `${history.moments.length} are kept`);
});

test('behind a name with several addresses each is a process, and one that goes is away', async (t) => {
  const addresses = new Set(['10.0.0.1', '10.0.0.2']);
  const asked: string[] = [];
  const { looks } = consoleMetrics(createMetrics('console'), []);
  const watch = watchFlow([{ name: 'ingest-gateway', url: 'http://gateways:9100' }], looks, {
    addressesOf: async () => [...addresses],
    ask: async (url) => {
      asked.push(url);
      return told(url === 'http://10.0.0.1:9100' ? 5 : 7);
    },
  });
  t.after(() => watch.close());
  const next = watch.watch(AbortSignal.timeout(30_000))[Symbol.asyncIterator]();
  const states = async () => {
    const { value } = await next.next();
    return (value as { processes: { name: string; is: string; service: string }[] }).processes;
  };
  await watch.now();
  assert.partialDeepStrictEqual(await states(), [
    { name: 'ingest-gateway-1', service: 'ingest-gateway', is: 'up' },
    { name: 'ingest-gateway-2', service: 'ingest-gateway', is: 'up' },
  ]);
  assert.deepEqual(new Set(asked), new Set(['http://10.0.0.1:9100', 'http://10.0.0.2:9100']));

  addresses.delete('10.0.0.1');
  assert.deepEqual(
    (await states()).map(({ is }) => is),
    ['away', 'up'],
  );
  asked.length = 0;
  // Another one takes the place of the one that is gone, whose address may be somebody else's now.
  addresses.add('10.0.0.3');
  assert.deepEqual(
    (await states()).map(({ name, is }) => [name, is]),
    [
      ['ingest-gateway-1', 'up'],
      ['ingest-gateway-2', 'up'],
    ],
  );
  assert.ok(!asked.includes('http://10.0.0.1:9100'), asked.join());
  assert.equal(looks.counted().away, 1);
  await next.return!();
});

test('who looks for long keeps no look but the last', async (t) => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const { looks } = consoleMetrics(createMetrics('console'), []);
  const watch = watchFlow(known, looks, { ask: async () => told(1), addressesOf: async () => [] });
  t.after(() => watch.close());
  const gone = new AbortController();
  const next = watch.watch(gone.signal)[Symbol.asyncIterator]();
  const seen = async () => new WeakRef((await next.next()).value as object);
  const before = await seen();
  const last = await seen();
  await eventually(async () => {
    collectGarbage();
    return before.deref() === undefined;
  });
  assert.notEqual(last.deref(), undefined);
  gone.abort();
  assert.equal((await next.next()).done, true);
});
