import type { Home } from '../home.ts';
import { LauncherError } from '../launcher-error.ts';
import type { StopOrder, Stopped } from '../processes/signal-process.ts';
import { containersOf, type ContainerRecord } from './container-records.ts';
import { docker, dockerNow, projectOf } from './engine.ts';

/** A container of a home, by the name of the process that it stands for. */
export type ContainerTarget = { home: Home; name: string };

/** Every process in it stands still, connections open: returns when they do. */
export function pauseContainer(target: ContainerTarget): void {
  dockerNow('pause', containerIdNow(target));
}

/** Goes on, if it stands still. */
export function continueContainer(target: ContainerTarget): void {
  const container = containerIdNow(target);
  if (dockerNow('inspect', '--format', '{{.State.Paused}}', container) === 'true') {
    dockerNow('unpause', container);
  }
}

/** SIGKILL for all that is in it. */
export async function killContainer(target: ContainerTarget): Promise<void> {
  await docker('kill', await runningContainer(target));
}

/** Asks it to finish and end; the engine kills it when that takes too long. */
export async function stopContainer(target: ContainerTarget, order: StopOrder): Promise<Stopped> {
  const container = await runningContainer(target);
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

/** The id of a container whose name is its place among the copies, as in `ledger-worker-2`. */
function containerIdNow({ home, name }: ContainerTarget): string {
  const [, service, place] = /^(.+?)(?:-(\d+))?$/.exec(name)!;
  const labels = { project: projectOf(home), service, oneoff: 'False' };
  const filters = Object.entries(labels).flatMap(([label, value]) => [
    '--filter',
    `label=com.docker.compose.${label}=${value}`,
  ]);
  const format = '{{.Label "com.docker.compose.container-number"}} {{.ID}}';
  const copies = dockerNow('ps', '--all', ...filters, '--format', format)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' ') as [string, string])
    .sort(([one], [other]) => Number(one) - Number(other));
  const found = copies[Number(place ?? 1) - 1];
  if (found === undefined) throw new LauncherError(`no container of ${name} is here`);
  return found[1];
}

async function runningContainer({ home, name }: ContainerTarget): Promise<string> {
  const records: ContainerRecord[] = await containersOf(home);
  const running = records.filter(({ state }) => state !== 'gone');
  const found = running.find((each) => each.name === name);
  if (found !== undefined) return found.container;
  const names = running.map((each) => each.name).join(', ') || 'none';
  throw new LauncherError(`no container of ${name} runs here; running: ${names}`);
}
