import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import type { System } from '@triplock/demo';
import { runCommand, withLock } from '@triplock/launcher';
import { openTerminal, renderList, style } from '@triplock/command';
import { k6Page } from './load/k6.ts';
import { type LoadReport, loadElsewhere, loadSystem, renderText } from './load/run-load.ts';
import { loadScenarios, readLoadOptions } from './load/scenarios.ts';
import { onOwnSystem, onRunningSystem } from './systems.ts';

const help = `
npm run load -- SCENARIO [options]

Loads the running system with k6, waits until all is delivered, and audits: the partners' answers are
compared with what every layer has, counts and amounts, and duplicates with what caught them.
Exit code 1 when anything differs or a threshold is missed. Nothing else should use the system.

  --list           the scenarios
  --rate N         payments a second
  --seconds N      how long
  --duplicates N   of the scenario duplicates: how many of 100 payments are sent again (45)
  --home DIR       the instance (.triplock)
  --gateway URL    a gateway somewhere else, which is loaded and cannot be audited
  --token KEY      the API key for it
  --history FILE   writes every request, its answer and every webhook into this new file, and judges
                   it by itself too (docs/failures.md); what that costs is in load-tests/README.md
  --keep           copies the report to load-tests/results, which git ignores
  --json           prints { ok, scenario, sends, rate, seconds, rig, claims, run, checks, knee, guards, audit,
                   drainedAfterSeconds, moments, readings, history? }
  --help
`;

const ownFolder = resolve(import.meta.dirname, '../.triplock/load');
const keptFolder = resolve(import.meta.dirname, 'results');

await runCommand({
  name: 'load',
  help,
  wordsMax: 1,
  options: {
    list: { type: 'boolean' },
    rate: { type: 'string' },
    seconds: { type: 'string' },
    duplicates: { type: 'string' },
    home: { type: 'string' },
    gateway: { type: 'string' },
    token: { type: 'string' },
    history: { type: 'string' },
    keep: { type: 'boolean' },
    json: { type: 'boolean' },
  },
  run: async ({ values, words, interrupted }) => {
    const terminal = openTerminal({ json: values.json ?? false });
    if (values.list) {
      const rows = loadScenarios.map(({ name, rate, seconds, shows, fixed }) => [
        name,
        fixed ? '' : `${rate}/s`,
        fixed ? '' : `${seconds} s`,
        shows,
      ]);
      const columns = ['scenario', 'rate', 'for', 'shows'].map((head) => ({ head }));
      for (const line of renderList(columns, rows)) terminal.line(line);
      terminal.result(
        loadScenarios.map(({ name, rate, seconds, shows, fixed }) => {
          return { name, ...(!fixed && { rate, seconds }), shows };
        }),
      );
      return;
    }
    const options = readLoadOptions(words[0], values);
    const signal = interrupted();
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '').replace('T', '-');
    const name = `${stamp}-${options.scenario.name}`;
    const folder = join(ownFolder, name);
    const context = { terminal, signal, folder };
    try {
      const report = await run();
      save(report, folder);
      if (values.keep) keep(folder, join(keptFolder, name));
      for (const line of renderText(report)) terminal.line(line);
      for (const file of reportsIn(folder)) {
        terminal.line(style.faint(`report: ${relative('.', join(folder, file))}`));
      }
      terminal.result(report);
      if (!report.ok) process.exitCode = 1;
    } finally {
      terminal.clear();
    }

    async function run(): Promise<LoadReport> {
      const { scenario, elsewhere, rate } = options;
      const report = (line: string) => terminal.progress(line);
      if (elsewhere !== undefined) return loadElsewhere(elsewhere, context, options);
      const settings = scenario.settings?.(rate);
      // Two at once would count each other's payments.
      const load = (system: System) =>
        withLock(join(system.home, 'load.lock'), { report, signal }, () =>
          loadSystem(system, context, options),
        );
      return settings === undefined
        ? onRunningSystem(values.home, { terminal, signal }, load)
        : onOwnSystem(
            { terminal, signal, name: 'load', settings, replicas: scenario.replicas },
            load,
          );
    }
  },
});

function save(report: LoadReport, folder: string): void {
  writeFileSync(join(folder, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
}

/** Without k6's own files: they are large, and what is in them stands in the report. */
function keep(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const file of reportsIn(from)) cpSync(join(from, file), join(to, file));
}

/** k6 draws no page of a run of a few seconds. */
function reportsIn(folder: string): string[] {
  return ['report.json', k6Page].filter((file) => existsSync(join(folder, file)));
}
