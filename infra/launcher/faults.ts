import { docker } from './containers/engine.ts';
import { type ContainerRecord, containersOf } from './containers/records.ts';
import { orderEnd } from './ends.ts';
import { CommandError } from '@triplock/command';
import { homeAt } from './home.ts';
import { isSameProcess } from './processes/identity.ts';
import {
  killProcessFamily,
  pauseProcessFamily,
  signalFamily,
  type StopOrder,
  type Stopped,
  stopProcess as endProcess,
} from './processes/stop.ts';
import { type ProcessRecord, readState } from './session.ts';
import { stopOrderOf } from './stop-order.ts';

/** A process of a home, or the container of one, by its name: a part, or `<service>-<replica>`. */
export type Target = { home?: string; name: string };

/** SIGSTOP: resolves when the process and everything below it stand still, connections open. */
export async function pauseProcess(target: Target): Promise<void> {
  const found = await find(target);
  if (isContainer(found)) await docker('pause', found.container);
  else await pauseProcessFamily(found);
}

/** SIGCONT: a paused process goes on. */
export async function continueProcess(target: Target): Promise<void> {
  const found = await find(target);
  if (!isContainer(found)) signalFamily(found.pid, 'SIGCONT');
  else if (found.state === 'paused') await docker('unpause', found.container);
}

/**
 * SIGKILL: resolves when the process and everything below it is gone. It stays so, also where an
 * agent starts again what ends by itself; `bringUp` starts it again.
 */
export async function killProcess(target: Target): Promise<void> {
  const found = await find(target);
  if (isContainer(found)) return void (await docker('kill', found.container));
  orderEnd(homeAt(target.home), found);
  await killProcessFamily(found);
}

/**
 * To be called before a crash point is armed that ends the process: it stays dead then, as one that
 * is killed, until `bringUp` starts it again. A process says with its last words that it does, the
 * engine has to be told of a container.
 */
export async function leaveDead(target: Target): Promise<void> {
  const found = await find(target);
  if (isContainer(found)) await docker('update', '--restart', 'no', found.container);
}

/**
 * Asks the process to finish what it holds and end, as `down` does, and resolves when it is gone:
 * `killed` says that it took too long. `bringUp` starts it again.
 */
export async function stopProcess(target: Target): Promise<Stopped> {
  const found = await find(target);
  const order = stopOrderOf(target.name);
  if (isContainer(found)) return stopContainer(found, order);
  orderEnd(homeAt(target.home), found);
  return endProcess(found, order);
}

/** The engine kills it when that takes too long. */
async function stopContainer({ container }: ContainerRecord, order: StopOrder): Promise<Stopped> {
  await docker('stop', '--time', String(Math.ceil(order.withinMs / 1_000)), container);
  const code = await docker('inspect', '--format', '{{.State.ExitCode}}', container);
  return { outcome: code === '137' ? 'killed' : 'stopped' };
}

/**
 * Names one run of the process: another after it was started again, `undefined` when it is gone.
 */
export async function runOf(target: Target): Promise<string | undefined> {
  const found = (await running(target)).find(({ name }) => name === target.name);
  if (found === undefined) return undefined;
  return `${isContainer(found) ? found.container : found.pid}/${found.startedAt}`;
}

/** A process of a home, or the container that stands for one. */
type Found = ProcessRecord | ContainerRecord;

const isContainer = (found: Found): found is ContainerRecord => 'container' in found;

async function find(target: Target): Promise<Found> {
  const all = await running(target);
  const found = all.find(({ name }) => name === target.name);
  if (found !== undefined) return found;
  const names = all.map(({ name }) => name).join(', ') || 'none';
  throw new CommandError(`no process ${target.name} runs here; running: ${names}`);
}

async function running({ home }: Target): Promise<Found[]> {
  const at = homeAt(home);
  const { parts, processes } = readState(at);
  if (parts !== 'docker') return Object.values(processes).filter(isSameProcess);
  return (await containersOf(at)).filter(({ state }) => state !== 'gone');
}
