import type { Home } from '../home.ts';
import { LauncherError, UsageError } from '../launcher-error.ts';
import { startCommand } from '../start-command.ts';
import { serviceOf } from '../stop-order.ts';
import { compose, ComposeFailed } from './engine.ts';
import { containersOf } from './container-records.ts';

/** Shows the last lines of every container of a home, or of those of one name. */
export async function showContainerLogs(
  home: Home,
  wanted: { name: string | undefined; lines: number; follow: boolean },
): Promise<void> {
  const { name, lines, follow } = wanted;
  const names = (await containersOf(home)).map((each) => each.name);
  if (names.length === 0) {
    const up = startCommand(home.folder);
    throw new LauncherError(`there are no containers of this home: \`${up}\` starts them`);
  }
  if (name !== undefined && !names.some((each) => each === name || serviceOf(each) === name)) {
    throw new UsageError(`there is no log of '${name}'; there are: ${names.sort().join(', ')}`);
  }
  const options = ['--no-color', '--tail', String(lines), ...(follow ? ['--follow'] : [])];
  const replica = name === undefined ? undefined : /-(\d+)$/.exec(name)?.[1];
  const one = replica === undefined ? [] : ['--index', replica];
  const services = name === undefined ? [] : [serviceOf(name)];
  const { signal } = new AbortController();
  const show = (line: string) => void process.stdout.write(`${line}\n`);
  try {
    await compose({ home, args: ['logs', ...options, ...one, ...services], signal, show });
  } catch (error) {
    throw error instanceof ComposeFailed ? new LauncherError(error.message) : error;
  }
}
