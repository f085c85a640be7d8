import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type SettingsOfServices, runCommand } from '@triplock/launcher';
import { UsageError, type Terminal, openTerminal, style, wholeNumber } from '@triplock/command';
import type { System } from '@triplock/demo';
import { renderSizes, runAuditAtSize } from './bench/audit-at-size.ts';
import { drainBacklog, mayBeAway, type Outage, renderBacklogs } from './bench/backlogs.ts';
import {
  type Comparison,
  compareGrown,
  compareWith,
  renderComparison,
} from './bench/comparisons.ts';
import { renderConsoleCosts, runConsoleCosts } from './bench/console-costs.ts';
import { renderCold, runCold } from './bench/cold.ts';
import { countAll, renderCounts } from './bench/counts-guard.ts';
import { type BenchOptions, readBenchOptions } from './bench/measurements.ts';
import { renderPlans, runPlans } from './bench/plans.ts';
import { measure, measureOwn } from './bench/schedule.ts';
import { benchSettings, noTracing } from './bench/settings.ts';
import { type BenchReport, markdownOf, renderTables, tablesOf } from './bench/sheet.ts';
import { withTracing } from './bench/stand-ins.ts';
import { type Listening, describeRig, onOwnSystem, onRunningSystem } from './systems.ts';

const help = `
npm run bench -- [options]

Measures what a payment costs, on a system of its own: the hot path alone, each stage on a backlog
with the later ones stopped, everything together, and at fixed rates; beside it an empty Fastify
POST under the same load. Then it audits, and leaves nothing behind. Exit code 1 when the audit finds
drift. docs/costs.md says how to read it.

  --seconds N      seconds of load of each window (10)
  --connections N  keep-alive connections of a closed loop, one request at a time on each (64)
  --repeat N       repetitions of everything (3)
  --markdown FILE  puts the tables into a page, between its two marks of the bench
  --home DIR       measures the instance that is up there: everything together, and at rates
  --tracing SHARE  traces that share of payments, as 0.01, into a sink; nothing is traced without
  --profile DIR    writes a CPU profile of every service there, of one more window, when it is warm
  --compare COMMIT instead: runs a commit beside this clone, loads them in turn, and says which figures
                   moved beyond the noise; N pairs of runs by --repeat (8)
  --grown N        instead: runs two systems of this clone, one of them with so many ledger rows, loads
                   them in turn, and says what moved; N pairs of runs by --repeat (8)
  --counts         instead: what servers are asked for a payment, at known batches. Exit code 1 when
                   anything is above its limit. It depends on no machine's speed
  --cold           instead: loads a system that is warm and then the same after its claims were lost and
                   read back, in turn, and says after how long that was, and what is accepted a second
                   then ÷ before; pairs of windows by --repeat (3)
  --backlog N      instead: takes each service behind the gateway away while so many payments come, and
                   says how fast they are done then, beside the rate that everything together holds
  --audit N        instead: makes so many payments in every layer by SQL, audits them, the first time,
                   the next, and all again, interrupted and resumed, and reads what the dispatcher's
                   looks cost meanwhile
  --plans N        instead: makes so many payments in every layer by SQL, and says which statement would
                   read all of a table that grows. Exit code 1 when one does
                   that is not excused
  --console N      instead: makes so many payments by SQL, asks for every page of the console, and looks
                   at every process. Exit code 1 when a page's median is above 100 ms
  --ledger-rows N  with --audit, --plans or --console: so many more before them, of days that were reaped elsewhere
  --json           prints { ok, rig, settings, audit, repetitions }
  --help
`;

/** What was not accepted, and what the audit says. */
function renderAudit({ audit, repetitions }: BenchReport): string[] {
  const others = repetitions.flatMap(({ hotPath, everything }) =>
    [hotPath, everything].flatMap((run) => Object.entries(run?.load.others ?? {})),
  );
  const odd = others.map(([status, count]) => `${count} × ${status}`).join(', ');
  return [
    ...(odd === '' ? [] : [style.bad(`not accepted: ${odd}`)]),
    audit.ok
      ? `${style.good('✔ no drift')}: all ${audit.counts.accepted} accepted payments are in every layer`
      : style.bad(`✘ drift: ${audit.drift.map(({ check }) => check).join(', ')}`),
  ];
}

/** What the figures belong to, in one line. */
function describeFigures({ rig, settings }: BenchReport): string {
  const { cpu, cores, memoryGiB, os, node, commit, loadBefore } = rig;
  const { repeat, seconds, connections, replicas, tracing } = settings;
  const traced = tracing === undefined ? '' : `; ${tracing * 100} % of payments traced`;
  return (
    `${repeat} × ${seconds} s over ${connections} connections; ${replicas} of each service${traced}. ` +
    `Rig: ${cpu}, ${cores} cores, ${memoryGiB} GiB; ${os}; Node ${node}; commit ${commit}; ` +
    `load before ${loadBefore}`
  );
}

const marks = ['<!-- bench: figures -->', '<!-- bench: end -->'] as const;

/** @throws UsageError for no page, or one without the marks, before anything is measured. */
function readPage(file: string): { before: string; after: string } {
  if (!existsSync(file)) throw new UsageError(`--markdown: there is no page ${file} to write into`);
  const [before, rest] = readFileSync(file, 'utf8').split(marks[0]);
  const [, after] = rest?.split(marks[1]) ?? [];
  if (after === undefined) throw new UsageError(`${file} has no ${marks.join(' … ')}`);
  return { before: before!, after };
}

function writePage(file: string, report: BenchReport): void {
  const { before, after } = readPage(file);
  const { seconds, repeat } = report.settings;
  const command = `Command: \`npm run bench -- --seconds ${seconds} --repeat ${repeat}\`, `;
  const figures = `${command}${describeFigures(report)}.\n\n${markdownOf(tablesOf(report))}`;
  writeFileSync(file, [before, marks[0], '\n\n', figures, '\n', marks[1], after].join(''));
}

/** An auditor that audits only when it is asked. */
const atSizeSettings = () => {
  return { ...benchSettings(undefined, noTracing), auditor: { AUDIT_EVERY_MS: '86400000' } };
};

/** Shows what was found, and fails the command where it is not well. */
function conclude(terminal: Terminal, report: { ok: boolean }, lines: readonly string[]): void {
  for (const line of lines) terminal.line(line);
  terminal.result(report);
  if (!report.ok) process.exitCode = 1;
}

/** On a system of its own, what is read there of so many payments. */
async function atSize<Report extends { ok: boolean }>(
  listening: Listening,
  run: (on: { system: System; terminal: Terminal }) => Promise<Report>,
  render: (report: Report) => string[],
): Promise<void> {
  const { terminal } = listening;
  const own = { ...listening, name: 'bench', settings: atSizeSettings() } as const;
  const report = await onOwnSystem(own, (system) => run({ system, terminal }));
  conclude(terminal, report, render(report));
}

// Fewer pairs see only large changes.
const pairs = 8;

async function comparePairs(
  { listening, options, settings }: Pairing,
  compare: (comparing: Listening & Omit<Pairing, 'listening'>) => Promise<Comparison>,
): Promise<void> {
  if (options.repeat < 2) throw new UsageError('a comparison takes two pairs at least: --repeat 2');
  const comparison = await compare({ ...listening, settings, options });
  for (const line of renderComparison(comparison)) listening.terminal.line(line);
  listening.terminal.result(comparison);
}
type Pairing = { listening: Listening; options: BenchOptions; settings: SettingsOfServices };

/** On a system of its own, with every service as it comes. */
async function guardCounts(listening: Listening): Promise<void> {
  const { terminal } = listening;
  const settings = benchSettings(undefined, noTracing);
  const own = { ...listening, name: 'bench', settings, countsStatements: true } as const;
  const report = await onOwnSystem(own, (system, runOnly) =>
    countAll({ system, terminal, runOnly }),
  );
  conclude(terminal, report, renderCounts(report));
}

/** On one system, so that nothing but the claims differs. */
async function coldBesideWarm(listening: Listening, options: BenchOptions): Promise<void> {
  const { terminal } = listening;
  const settings = benchSettings(undefined, noTracing);
  const own = { ...listening, name: 'bench', settings, countsStatements: true } as const;
  const rig = describeRig();
  const report = await onOwnSystem(own, async (system, runOnly) => {
    return { rig, ...(await runCold({ system, terminal, runOnly, options })) };
  });
  conclude(terminal, report, renderCold(report));
}

/** Each outage on a system of its own, as each repetition is. */
async function backlogs(listening: Listening, options: BenchOptions, count: number): Promise<void> {
  const { terminal } = listening;
  const settings = benchSettings(undefined, noTracing);
  const own = { ...listening, name: 'bench', settings } as const;
  const rig = describeRig();
  const outages: Outage[] = [];
  for (const away of mayBeAway) {
    outages.push(
      await onOwnSystem(own, (system, runOnly) =>
        drainBacklog({ system, terminal, runOnly, options }, { away, count }),
      ),
    );
  }
  const report = { ok: outages.every(({ ok }) => ok), rig, outages };
  conclude(terminal, report, renderBacklogs(report));
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
    markdown: { type: 'string' },
    compare: { type: 'string' },
    grown: { type: 'string' },
    counts: { type: 'boolean' },
    cold: { type: 'boolean' },
    backlog: { type: 'string' },
    audit: { type: 'string' },
    plans: { type: 'string' },
    console: { type: 'string' },
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
    const page = values.markdown;
    if (page !== undefined) readPage(page);
    const terminal = openTerminal({ json: values.json ?? false });
    const listening = { terminal, signal: interrupted() };
    const payments = wholeNumber(values.audit, { option: 'audit', min: 1, max: 100_000_000 });
    const planned = wholeNumber(values.plans, { option: 'plans', min: 50_000, max: 100_000_000 });
    const shown = wholeNumber(values.console, { option: 'console', min: 1_000, max: 100_000_000 });
    const limits = { option: 'ledger-rows', min: 0, max: 100_000_000 };
    const ledgerRows = wholeNumber(values['ledger-rows'], limits) ?? 0;
    if (payments !== undefined) {
      const size = { payments, ledgerRows };
      return atSize(listening, (on) => runAuditAtSize(on, size), renderSizes);
    }
    if (planned !== undefined) {
      const size = { payments: planned, ledgerRows };
      return atSize(listening, (on) => runPlans(on, size), renderPlans);
    }
    if (shown !== undefined) {
      const size = { payments: shown, ledgerRows };
      return atSize(listening, (on) => runConsoleCosts(on, size), renderConsoleCosts);
    }
    if (ledgerRows > 0)
      throw new UsageError('--ledger-rows goes with --audit, --plans or --console');
    if (values.counts) return guardCounts(listening);
    if (values.cold) return coldBesideWarm(listening, options);
    const backlog = wholeNumber(values.backlog, { option: 'backlog', min: 100, max: 10_000_000 });
    if (backlog !== undefined) return backlogs(listening, options, backlog);
    const repeat = values.repeat === undefined ? pairs : options.repeat;
    const pairing = { listening, options: { ...options, repeat } };
    const commit = values.compare;
    if (commit !== undefined) {
      const settings = benchSettings(undefined, noTracing);
      return comparePairs({ ...pairing, settings }, (each) => compareWith(commit, each));
    }
    const grown = wholeNumber(values.grown, { option: 'grown', min: 1_000, max: 100_000_000 });
    if (grown !== undefined) {
      // An audit would read all of them meanwhile.
      const settings = atSizeSettings();
      return comparePairs({ ...pairing, settings }, (each) => compareGrown(grown, each));
    }
    const rig = describeRig();
    const folder = profile !== undefined && { profile: resolve(profile) };
    const { replicas, ...measured } = await (home === undefined
      ? withTracing(options.tracing, listening.signal, (tracingSettings) => {
          const settings = benchSettings(profile, tracingSettings);
          return measureOwn({ ...listening, ...folder, name: 'bench', settings }, options);
        })
      : onRunningSystem(home, listening, (system) =>
          measure({ system, terminal }, { options, from: 1, to: options.repeat }),
        ));
    const { ok } = measured.audit;
    const report: BenchReport = { ok, rig, settings: { ...options, replicas }, ...measured };
    terminal.line(style.faint(describeFigures(report)));
    terminal.line('');
    for (const line of [...renderTables(tablesOf(report)), ...renderAudit(report)]) {
      terminal.line(line);
    }
    terminal.result(report);
    if (page !== undefined) writePage(page, report);
    if (!report.ok) process.exitCode = 1;
  },
});
