import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { test } from 'node:test';
import { createMetrics, Durations, renderMetrics, Tally } from './metrics.ts';

test('a tally shows every value from the start, and counts each by itself', async () => {
  const registry = createMetrics('test');
  const tally = new Tally({
    name: 'claims_total',
    help: 'Claims.',
    label: 'outcome',
    values: { claimed: 0, 'in-flight': 0 },
    registers: [registry],
  });
  const shown = async () =>
    (await registry.getSingleMetricAsString('claims_total')).split('\n').slice(2);
  assert.deepEqual(await shown(), [
    'claims_total{outcome="claimed",service="test"} 0',
    'claims_total{outcome="in-flight",service="test"} 0',
  ]);
  tally.count('claimed');
  tally.count('claimed', 4);
  assert.deepEqual(await shown(), [
    'claims_total{outcome="claimed",service="test"} 5',
    'claims_total{outcome="in-flight",service="test"} 0',
  ]);
  assert.deepEqual(tally.counted(), { claimed: 5 });
});

test('durations show every outcome from the start, and work that throws as such', async () => {
  const registry = createMetrics('test');
  const durations = new Durations({
    name: 'work_seconds',
    help: 'Work.',
    buckets: [60],
    outcomes: ['done', 'failed'],
    registers: [registry],
  });
  const counts = async () => {
    const text = await registry.getSingleMetricAsString('work_seconds');
    return [...text.matchAll(/^work_seconds_count\{.*outcome="(\w+)"\} (\d+)$/gm)].map(
      ([, outcome, count]) => `${outcome} ${count}`,
    );
  };
  assert.deepEqual(await counts(), ['done 0', 'failed 0']);
  const time = (work: () => Promise<string>) => durations.time(work, () => 'done', 'failed');
  assert.equal(await time(async () => 'result'), 'result');
  await assert.rejects(
    time(() => Promise.reject(new Error('away'))),
    /away/,
  );
  durations.start()('done');
  assert.deepEqual(await counts(), ['done 2', 'failed 1']);
});

test('the lag of timers is shown without the period in which it is looked at', async () => {
  const registry = createMetrics('test');
  // Looks as often, and began later: once it has seen a timer, so has the registry.
  const looks = monitorEventLoopDelay({ resolution: 250 });
  looks.enable();
  while (looks.count < 2) await new Promise(setImmediate);
  looks.disable();
  const text = await registry.metrics();
  const lines = [...text.matchAll(/^nodejs_eventloop_lag_(min|p99)_seconds\S* (\S+)$/gm)];
  const { min, p99 } = Object.fromEntries(lines.map(([, figure, lag]) => [figure, Number(lag)]));
  assert.ok(min! < 0.25, `a timer that was in time: ${min} s late`);
  assert.ok(p99! >= min!);
});

test('a figure that is asked for alone is as right as among all', async () => {
  const registry = createMetrics('test');
  const ask = async (name: string) => {
    const text = await renderMetrics(registry, [name]);
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    assert.ok(
      lines.every((line) => line.startsWith(`${name}{`)),
      text,
    );
    return lines.map((line) => Number(line.split(' ').at(-1)));
  };
  const since = process.cpuUsage();
  while (process.cpuUsage(since).system === 0) statSync('.');
  for (const name of [
    'process_cpu_seconds_total',
    'process_cpu_system_seconds_total',
    'nodejs_heap_size_used_bytes',
    'nodejs_heap_space_size_used_bytes',
  ]) {
    const figures = await ask(name);
    assert.ok(Math.max(...figures) > 0, `${name}: ${figures.join()}`);
  }
  for (let times = 0; times < 2; times += 1) {
    const looks = monitorEventLoopDelay({ resolution: 250 });
    looks.enable();
    while (looks.count < 2) await new Promise(setImmediate);
    looks.disable();
    const [p50] = await ask('nodejs_eventloop_lag_p50_seconds');
    assert.ok(p50! > -0.1 && p50! < 0.25, `asked ${times + 1} times: ${p50} s late`);
  }
});
