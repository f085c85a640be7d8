import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type System, auditSystem } from '@triplock/demo';
import { type SettingsOfServices, UsageError, runCommand } from '@triplock/launcher';
import { type Terminal, openTerminal, wholeNumber } from '@triplock/operator';
import { renderSizes, runAuditAtSize } from './bench/audit-at-size.ts';
import type { Size } from './bench/many-payments.ts';
import { type BenchReport, figuresOf, renderReport } from './bench/cost-sheet.ts';
import { withTracing } from './bench/trace-sink.ts';
import { type Listening, describeRig, onOwnSystem, onRunningSystem } from './systems.ts';
import {
  type BenchOptions,
  type MeasuredService,
  type Repetition,
  measuredServices,
  readBenchOptions,
  sampleServices,
} from './bench/measurements.ts';
import { type IdleLoad, runEmptyPost, runSystem, withHelpers } from './bench/system-run.ts';

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
  --audit N        makes so many payments in every layer by SQL instead, audits them, the first time,
                   the next, and all again, interrupted and resumed, and reads what the dispatcher's
                   looks cost meanwhile
  --ledger-rows N  with --audit: so many more before them, of days that were reaped elsewhere
  --json           prints { ok, rig, settings, figures, audit, repetitions }
  --help
`;

const auditWaitMs = 120_000;
const noIdle = Object.fromEntries(measuredServices.map((name) => [name, 0])) as Record<
  MeasuredService,
  number
>;

/**
 * Loads the empty POST and the system in turn, so that whatever else the machine does meets both,
 * and audits the system at the end.
 */
async function runBench(
  { system, terminal }: { system: System; terminal: Terminal },
  options: BenchOptions,
): Promise<BenchReport> {
  const rig = describeRig();
  const { seconds, connections, repeat } = options;
  return withHelpers({ system, terminal }, async (bench) => {
    // Code that was never hot is compiled now, and not in the first run.
    const short = { connections, seconds: Math.max(1, Math.min(5, Math.floor(seconds / 4))) };
    terminal.note('warming up');
    await runEmptyPost(bench, short);
    await runSystem(bench, { ...short, idle: noIdle });
    terminal.note('measuring what the services use with nothing to do');
    const idle = await measureIdle(system, short.seconds);

    const amount = { connections, seconds };
    const repetitions: Repetition[] = [];
    terminal.note(`empty POST: ${seconds} s`);
    let before = await runEmptyPost(bench, amount);
    for (let n = 1; n <= repeat; n += 1) {
      terminal.note(`system, ${n} of ${repeat}: ${seconds} s and until all is delivered`);
      const run = await runSystem(bench, { ...amount, idle });
      terminal.note(`empty POST, ${n} of ${repeat}: ${seconds} s`);
      const after = await runEmptyPost(bench, amount);
      repetitions.push({ before, system: run, after });
      before = after;
    }
    terminal.note('audit');
    const { ok, counts, drift } = await auditSystem(system, auditWaitMs);
    return {
      ok,
      rig,
      settings: { ...options, replicas: system.endpoints.gateways.length },
      figures: figuresOf(repetitions),
      audit: { ok, counts, drift },
      repetitions,
    };
  });
}

/** Looks for so many seconds at services that have nothing to do. */
async function measureIdle(system: System, seconds: number): Promise<IdleLoad> {
  const before = await sampleServices(system);
  const startedAt = performance.now();
  await delay(seconds * 1_000, undefined, { signal: system.signal });
  const after = await sampleServices(system);
  const tookMicros = (performance.now() - startedAt) * 1_000;
  const loads = measuredServices.map((name) => {
    return [name, (after[name].cpuMicros - before[name].cpuMicros) / tookMicros] as const;
  });
  return Object.fromEntries(loads) as IdleLoad;
}

/** On a system of its own, whose auditor audits only when it is asked. */
async function auditAtSize(listening: Listening, size: Size): Promise<void> {
  const { terminal } = listening;
  const settings = { ...benchSettings(undefined, {}), auditor: { AUDIT_EVERY_MS: '86400000' } };
  const report = await onOwnSystem({ ...listening, name: 'bench', settings }, (system) =>
    runAuditAtSize({ system, terminal }, size),
  );
  for (const line of renderSizes(report)) terminal.line(line);
  terminal.result(report);
  if (!report.ok) process.exitCode = 1;
}

/**
 * As production would have it, but for the rate of one partner, which here does the work of all,
 * and for a CPU profile of each service where a folder for them is given.
 */
function benchSettings(
  profileFolder: string | undefined,
  tracing: SettingsOfServices[string],
): SettingsOfServices {
  const rate = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' };
  const profiles = measuredServices.map((name) => [name, profileOf(name, profileFolder)] as const);
  const each = Object.fromEntries(profiles);
  return {
    ...each,
    all: { LOG_LEVEL: 'info', ...tracing },
    'ingest-gateway': { ...each['ingest-gateway'], ...rate },
  };
}

/** Node writes the profile when the service ends. */
function profileOf(name: string, folder: string | undefined): Record<string, string> {
  if (folder === undefined) return {};
  const file = `--cpu-prof-name=${name}.cpuprofile`;
  return { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${JSON.stringify(folder)} ${file}` };
}

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
    audit: { type: 'string' },
    'ledger-rows': { type: 'string' },
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
    const payments = wholeNumber(values.audit, { option: 'audit', min: 1, max: 100_000_000 });
    const limits = { option: 'ledger-rows', min: 0, max: 100_000_000 };
    const ledgerRows = wholeNumber(values['ledger-rows'], limits) ?? 0;
    if (payments !== undefined) return auditAtSize(listening, { payments, ledgerRows });
    if (ledgerRows > 0) throw new UsageError('--ledger-rows goes with --audit');
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
