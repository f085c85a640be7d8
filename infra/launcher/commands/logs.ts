import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, UsageError, wholeNumber } from '@triplock/command';
import { type Home, homeAt, startCommand } from '../home.ts';
import { showContainerLogs } from '../logs.ts';
import { followLog, lastLines } from '../processes/logs.ts';
import { serviceOf } from '../services.ts';
import { readState } from '../session.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run logs -- [name] [options]

Shows the last lines of every log, or of one: a part (redis, kafka, postgres, pubsub), a service
(ledger-worker, with all its replicas) or one replica (ledger-worker-1).

  -n, --lines N   lines of each log (20)
  --follow        goes on showing new lines until Ctrl-C
  --home DIR      the instance (.triplock)
  --help
`;

await runCommand({
  name: 'logs',
  help,
  options: {
    lines: { type: 'string', short: 'n' },
    follow: { type: 'boolean', short: 'f' },
    home: { type: 'string' },
  },
  wordsMax: 1,
  run: async ({ values, words }) => {
    const lines = wholeNumber(values.lines, { option: 'lines', min: 1, max: 999_999 }) ?? 20;
    // Nothing was started, and nobody would end --follow.
    process.stdout.once('error', () => process.exit());
    const home = homeAt(values.home);
    if (readState(home).parts === 'docker') {
      return showContainerLogs(home, { name: words[0], lines, follow: values.follow ?? false });
    }
    const { logs } = home;
    const names = namesIn(home, words[0]);
    const width = Math.max(...names.map((name) => name.length));
    const show = (name: string, line: string) =>
      process.stdout.write(`${names.length > 1 ? `${name.padEnd(width)} | ` : ''}${line}\n`);
    for (const name of names) {
      const file = join(logs, `${name}.log`);
      for (const line of lastLines(file, { lines })) show(name, line);
      if (values.follow) followLog(file, (line) => show(name, line));
    }
  },
});

function namesIn({ folder, logs }: Home, wanted: string | undefined): string[] {
  const all = existsSync(logs)
    ? readdirSync(logs)
        .filter((file) => file.endsWith('.log'))
        .map((file) => file.slice(0, -4))
    : [];
  const names = all
    .filter((name) => wanted === undefined || name === wanted || serviceOf(name) === wanted)
    .sort();
  if (names.length > 0) return names;
  if (all.length === 0) {
    throw new CommandError(`there are no logs in ${logs}: \`${startCommand(folder)}\` writes them`);
  }
  throw new UsageError(`there is no log of '${wanted}'; there are: ${all.sort().join(', ')}`);
}
