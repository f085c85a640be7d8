import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { before, test } from 'node:test';
import { declarations, systemStatus } from '@triplock/launcher';
import { command, home, upSystem } from './test/system.ts';

// Of the files here it comes last by its name: it sends some thousands of payments, which every
// audit of the system after it has to compare.

type Percentiles = { p50: number; p99: number };
type Run = {
  load: { accepted: number; others: object; latencyMs: Percentiles; cpuMicros: number };
  cpu: Record<string, number>;
  toPublished: Percentiles;
  toDelivered: Percentiles;
};
type Report = {
  ok: boolean;
  settings: { seconds: number; connections: number; repeat: number; replicas: number };
  audit: { counts: { accepted: number; published: number; deliveries: number } };
  repetitions: {
    everything: Run & { emptyPost: { load: Run['load']; cpuMicros: number } };
    rates: (Run & { rate: number; held: boolean })[];
    idleCores: number;
    stages?: object;
  }[];
};

// No payment passes the console, so the bench does not count it.
const services = declarations.map(({ name }) => name).filter((name) => name !== 'console');

before(() => upSystem());

test('the bench sends payments, sees each of them delivered, and reports what they cost', async () => {
  const options = ['--seconds', '1', '--repeat', '1', '--connections', '4', '--json'];
  const { code, stdout, stderr } = await command('bench', ...options);
  assert.equal(code, 0, stderr);
  const report = JSON.parse(stdout) as Report;
  const { audit, settings, repetitions } = report;

  assert.equal(report.ok, true);
  assert.deepEqual(settings, { seconds: 1, connections: 4, repeat: 1, replicas: 2 });
  const [{ everything, rates, idleCores, stages }] = repetitions as [Report['repetitions'][0]];
  assert.equal(stages, undefined, 'services of a system that is up are not stopped');
  const { load, cpu, emptyPost, toPublished, toDelivered } = everything;
  assert.ok(load.accepted > 0);
  // A busy machine may have it answer 503 now and then, and nothing else.
  assert.deepEqual(
    Object.keys(load.others).filter((status) => status !== '503'),
    [],
  );
  assert.ok(audit.counts.published >= load.accepted);
  assert.ok(audit.counts.deliveries >= load.accepted);

  for (const name of services) assert.ok(cpu[name]! > 0, name);
  assert.ok(idleCores > 0);
  assert.ok(load.latencyMs.p99 >= load.latencyMs.p50);
  assert.ok(toDelivered.p50 > toPublished.p50, 'a webhook comes after its event');
  assert.ok(rates.length > 0 && rates.every(({ rate, load: { accepted } }) => accepted <= rate));
  const published = services.slice(0, 3).reduce((sum, name) => sum + cpu[name]!, 0);
  const ratio = published / load.accepted / (emptyPost.cpuMicros / emptyPost.load.accepted);
  assert.ok(ratio > 1, 'a payment costs more than an empty POST');
});

test('Ctrl-C ends a bench of a running system at once and leaves that up', async () => {
  const { processes: running } = await systemStatus({ home, withinMs: 60_000 });
  assert.deepEqual(new Set(running.map(({ state }) => state)), new Set(['ready']));
  const launcher = ['infra/launcher/triplock.mjs', 'bench', '--seconds', '120', '--home', home];
  const cwd = new URL('../', import.meta.url);
  const bench = spawn(process.execPath, launcher, { cwd, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(bench, 'exit');
  const printed: string[] = [];
  for await (const line of createInterface({ input: bench.stderr })) {
    printed.push(line);
    if (line.includes('warming up')) bench.kill('SIGINT');
  }
  const [code] = (await ended) as [number];
  assert.equal(code, 130, printed.join('\n'));
  // What it had sent is still worked off, so a busy service may answer its first probe late.
  const after = await systemStatus({ home, withinMs: 60_000 });
  assert.deepEqual(after.processes, running);
});
