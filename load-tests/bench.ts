import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import type { System } from '@triplock/demo';
import { runCommand, UsageError } from '@triplock/launcher';
import { openTerminal } from '@triplock/operator';
import { benchSettings, readBenchOptions } from './bench/options.ts';
import { renderReport } from './bench/report.ts';
import { runBench } from './bench/run-bench.ts';
import { withTracing } from './bench/trace-sink.ts';
import { onOwnSystem, onRunningSystem } from './systems.ts';

const help = `
npm run bench -- [options]

Measures what a payment costs: CPU of every service, and its ratio to an empty Fastify POST that is
measured in turn with the system, under the same load. It brings up a system of its own, sends fresh
book transfers, waits until the last webhook is delivered, audits, and leaves nothing behind. Exit
code 1 when the audit finds drift. docs/costs.md says how to read it.

  --seconds N      seconds of load of each run (20)
  --connections N  keep-alive connections, one request at a time on each (64)
  --repeat N       runs of the system, each between two of the empty POST (3)
  --home DIR       measures the instance that is up there, and leaves it up
  --tracing SHARE  traces that share of payments, as 0.01, into a sink; nothing is traced without
  --profile DIR    writes a CPU profile of every service there, for the developer tools of Chrome
  --json           prints { ok, rig, settings, figures, audit, repetitions }
  --help
`;

await runCommand({
  name: 'bench',
  help,
  options: {
    seconds: { type: 'string' },
    connections: { type: 'string' },
    repeat: { type: 'string' },
    home: { type: 'string' },
    profile: { type: 'string' },
    tracing: { type: 'string' },
    json: { type: 'boolean' },
  },
  run: async ({ values, interrupted }) => {
    const options = readBenchOptions(values);
    const { home, profile, tracing } = values;
    if (home !== undefined && (profile ?? tracing) !== undefined) {
      const option = profile === undefined ? '--tracing' : '--profile';
      throw new UsageError(
        `${option} is for a system of its own: services that run keep their settings`,
      );
    }
    const profileFolder = profile === undefined ? undefined : resolve(profile);
    if (profileFolder !== undefined) mkdirSync(profileFolder, { recursive: true });
    const terminal = openTerminal({ json: values.json ?? false });
    const listening = { terminal, signal: interrupted() };
    const measure = (system: System) => runBench({ system, terminal }, options);
    const measureOwn = (tracingSettings: Record<string, string>) => {
      const settings = benchSettings(profileFolder, tracingSettings);
      return onOwnSystem({ ...listening, name: 'bench', settings }, measure);
    };
    const report = await (home === undefined
      ? withTracing(options.tracing, listening.signal, measureOwn)
      : onRunningSystem(home, listening, measure));
    for (const line of renderReport(report)) terminal.line(line);
    terminal.result(report);
    if (!report.ok) process.exitCode = 1;
  },
});
