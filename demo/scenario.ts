import {
  Interrupted,
  UsageError,
  openTerminal,
  renderList,
  type Terminal,
  wholeNumber,
} from '@triplock/command';
import { runCommand } from '@triplock/launcher';
import { runScenarios } from './run-scenario.ts';
import { allScenarios, chooseScenarios } from './scenarios/all.ts';
import { startSystem, type System } from './system.ts';
import { chooseGuard, listScenarios, type MissingGuard } from './without/missing-guards.ts';
import { renderWithout, renderWithoutHeading, runWithout } from './without/run-without.ts';

const help = `
npm run scenario -- NAME [options]

Makes one failure happen for real on the live system, and shows what each guard did about it. What
is not up is started first and stays up; Ctrl-C starts again what the fault stopped. Exit code 0
when the fault fired and every promise held.

  NAME             one of those that --list shows
  --list           shows the name of each failure, what fails and what absorbs it
  --all            runs all of them
  --without GUARD  takes claims, ledger or inbox away, in a namespace of its own that is dropped
                   afterwards, and shows which duplicates escape. Exit code 0 only if some did.
                   NAME may be left out: each guard has one that shows it best
  --replicas N     brings up N of each service (as many as run, or 1)
  --home DIR       the instance (.triplock)
  --json           prints what was seen as JSON
  --help
`;

await runCommand({
  name: 'scenario',
  help,
  options: {
    list: { type: 'boolean' },
    all: { type: 'boolean' },
    without: { type: 'string' },
    replicas: { type: 'string' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 1,
  run: async ({ values, words, interrupted }) => {
    const terminal = openTerminal({ json: values.json ?? false });
    const guard = values.without === undefined ? undefined : chooseGuard(values.without);
    if (guard && (values.list || values.all)) {
      throw new UsageError('--without goes with one scenario: leave --list and --all out');
    }
    if (values.list) return list(terminal);
    const scenarios = chooseScenarios(words[0] ?? guard?.scenario, values.all ?? false);
    const replicas = wholeNumber(values.replicas, { option: 'replicas', min: 1, max: 10 });
    const instance = { home: values.home, replicas };
    const system = await startSystem(instance, { terminal, signal: interrupted() });
    if (guard) {
      const [scenario] = scenarios;
      return goWithout(guard, { scenario: scenario!, main: system, terminal }).finally(
        system.close,
      );
    }
    try {
      const reports = await runScenarios(scenarios, { system, terminal });
      terminal.result(values.all ? reports : reports[0]);
      if (!reports.every((report) => report.held)) process.exitCode = 1;
    } catch (error) {
      await makeWhole(system, terminal);
      if (!system.signal.aborted) throw error;
      throw new Interrupted('what the fault had stopped runs again');
    } finally {
      await system.close();
    }
  },
});

function list(terminal: Terminal): void {
  const rows = allScenarios.map(({ name, failure, absorbedBy }) => [name, failure, absorbedBy]);
  const columns = ['name', 'what fails', 'absorbed by'].map((head) => ({ head }));
  for (const line of renderList(columns, rows)) terminal.line(line);
  terminal.result(listScenarios());
}

/** Prints what escapes without a guard; nothing is left of the system that lacked it. */
async function goWithout(
  guard: MissingGuard,
  parts: Parameters<typeof runWithout>[1],
): Promise<void> {
  const { scenario, main, terminal } = parts;
  for (const line of renderWithoutHeading(scenario, guard)) terminal.line(line);
  try {
    const report = await runWithout(guard, parts);
    for (const line of renderWithout(report)) terminal.line(line);
    terminal.result(report);
    if (report.duplicates === 0) process.exitCode = 1;
  } catch (error) {
    if (!main.signal.aborted) throw error;
    throw new Interrupted(`without-${guard.name} is dropped`);
  }
}

/**
 * A fault that was broken off must leave no service down, nor standing still.
 *
 * @throws with the advice to a person when it cannot be put right.
 */
async function makeWhole(system: System, terminal: Terminal): Promise<void> {
  terminal.progress('starting again what the fault has stopped');
  try {
    // Ctrl-C has ended the scenario; it must not end this.
    await system.restore(new AbortController().signal);
  } catch (error) {
    const advice = `npm run up -- --home '${system.home}'`;
    terminal.line(`the fault may have left something down: ${advice} starts it again`);
    throw error;
  }
}
