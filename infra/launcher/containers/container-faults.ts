import type { Home } from '../home.ts';
import { LauncherError } from '../launcher-error.ts';
import type { StopOrder, Stopped } from '../processes/signal-process.ts';
import { containersOf, type ContainerRecord } from './container-records.ts';
import { docker } from './engine.ts';

/** A container of a home, by the name of the process that it stands for. */
export type ContainerTarget = { home: Home; name: string };

/** Every process in it stands still, connections open: resolves when they do. */
export async function pauseContainer(target: ContainerTarget): Promise<void> {
  await docker('pause', (await runningContainer(target)).container);
}

/** Goes on, if it stands still. */
export async function continueContainer(target: ContainerTarget): Promise<void> {
  const { container, state } = await runningContainer(target);
  if (state === 'paused') await docker('unpause', container);
}

/** SIGKILL for all that is in it. */
export async function killContainer(target: ContainerTarget): Promise<void> {
  await docker('kill', (await runningContainer(target)).container);
}

/** Asks it to finish and end; the engine kills it when that takes too long. */
export async function stopContainer(target: ContainerTarget, order: StopOrder): Promise<Stopped> {
  const { container } = await runningContainer(target);
  const seconds = String(Math.ceil(order.withinMs / 1_000));
  await docker('stop', '--time', seconds, container);
  const code = await docker('inspect', '--format', '{{.State.ExitCode}}', container);
  return { outcome: code === '137' ? 'killed' : 'stopped' };
}

/** Names one run of the container; `undefined` when it does not run. */
export async function runOfContainer(target: ContainerTarget): Promise<string | undefined> {
  const record = (await containersOf(target.home)).find(({ name }) => name === target.name);
  if (record === undefined || record.state === 'gone') return undefined;
  return `${record.container}/${record.startedAt}`;
}

async function runningContainer({ home, name }: ContainerTarget): Promise<ContainerRecord> {
  const records = await containersOf(home);
  const running = records.filter(({ state }) => state !== 'gone');
  const found = running.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = running.map((each) => each.name).join(', ') || 'none';
  throw new LauncherError(`no container of ${name} runs here; running: ${names}`);
}
