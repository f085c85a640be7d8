import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { declarations } from '@triplock/launcher';
import { command, home, upSystem } from './test/system.ts';

type Spread = { min: number; median: number; max: number };
type Service = { cpuMicros: Spread; idleMicros: Spread; rssMiBPeak: Spread; rssMiBEnd: Spread };
type Report = {
  ok: boolean;
  rig: { cores: number; node: string; commit: string };
  settings: { seconds: number; connections: number; repeat: number; replicas: number };
  figures: {
    acceptedPerSecond: Spread;
    publishedPerSecond: Spread;
    deliveredPerSecond: Spread;
    latencyMs: { p50: Spread; p99: Spread };
    services: Record<string, Service>;
    cpuMicros: { published: Spread; together: Spread };
    emptyPost: { requestsPerSecond: Spread; cpuMicros: Spread };
    ratio: { published: Spread; together: Spread };
  };
  audit: { counts: { accepted: number; published: number; deliveries: number } };
  repetitions: { system: { load: { accepted: number; others: object } } }[];
};

const services = declarations.map(({ name }) => name);

before(() => upSystem());

test('the bench sends payments, sees each of them delivered, and reports what they cost', async () => {
  const options = ['--seconds', '2', '--repeat', '1', '--connections', '16', '--json'];
  const { code, stdout, stderr } = await command('bench', ...options);
  assert.equal(code, 0, stderr);
  const report = JSON.parse(stdout) as Report;
  const { figures, audit, settings } = report;

  assert.equal(report.ok, true);
  assert.deepEqual(settings, { seconds: 2, connections: 16, repeat: 1, replicas: 2 });
  const [run] = report.repetitions;
  assert.ok(run!.system.load.accepted > 0);
  // A busy machine may have it answer 503 now and then, and nothing else.
  assert.deepEqual(
    Object.keys(run!.system.load.others).filter((status) => status !== '503'),
    [],
  );
  assert.ok(audit.counts.published >= run!.system.load.accepted);
  assert.ok(audit.counts.deliveries >= run!.system.load.accepted);

  assert.deepEqual(Object.keys(figures.services), services);
  for (const [name, { cpuMicros, idleMicros, rssMiBEnd }] of Object.entries(figures.services)) {
    assert.ok(cpuMicros.median > 0, name);
    assert.ok(idleMicros.median >= 0, name);
    assert.ok(rssMiBEnd.median > 10, name);
  }
  const { acceptedPerSecond, publishedPerSecond, deliveredPerSecond, latencyMs, ratio } = figures;
  for (const rate of [acceptedPerSecond, publishedPerSecond, deliveredPerSecond]) {
    assert.ok(rate.median > 0);
  }
  assert.ok(latencyMs.p99.median >= latencyMs.p50.median);
  assert.ok(Number.isFinite(ratio.together.median));
  assert.ok(ratio.published.median > 1, 'a payment costs more than an empty POST');
  assert.ok(ratio.together.median > ratio.published.median);
});

test('Ctrl-C ends a bench of a running system at once and leaves that up', async () => {
  const launcher = ['infra/launcher/triplock.mjs', 'bench', '--seconds', '600', '--home', home];
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
  assert.equal((await command('status')).code, 0);
});

test('a payment runs through few files, in the order that docs/journey.md gives', async () => {
  const file = fileURLToPath(new URL('./journey.ts', import.meta.url));
  const problem = await new Promise<string | undefined>((resolve) => {
    execFile(process.execPath, [file], (error, stdout, stderr) =>
      resolve(error === null ? undefined : stdout + stderr),
    );
  });
  assert.equal(problem, undefined);
});
