import { docker } from './containers/engine.ts';
import { type ContainerRecord, containersOf } from './containers/records.ts';
import { orderEnd } from './ends.ts';
import { CommandError } from '@triplock/command';
import { type Home, homeAt } from './home.ts';
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
  const container = containerFor(target);
  if (container !== undefined) return pauseContainer(container);
  await pauseProcessFamily(recordOf(target));
}

/** SIGCONT: a paused process goes on. */
export async function continueProcess(target: Target): Promise<void> {
  const container = containerFor(target);
  if (container !== undefined) return continueContainer(container);
  signalFamily(recordOf(target).pid, 'SIGCONT');
}

/**
 * SIGKILL: resolves when the process and everything below it is gone. It stays so, also where an
 * agent starts again what ends by itself; `bringUp` starts it again.
 */
export async function killProcess(target: Target): Promise<void> {
  const container = containerFor(target);
  if (container !== undefined) return killContainer(container);
  await killProcessFamily(orderedToEnd(target));
}

/**
 * To be called before a crash point is armed that ends the process: it stays dead then, as one that
 * is killed, until `bringUp` starts it again. A process says with its last words that it does, the
 * engine has to be told of a container.
 */
export async function leaveDead(target: Target): Promise<void> {
  const container = containerFor(target);
  if (container === undefined) return;
  await docker('update', '--restart', 'no', (await runningContainer(container)).container);
}

/**
 * Asks the process to finish what it holds and end, as `down` does, and resolves when it is gone:
 * `killed` says that it took too long. `bringUp` starts it again.
 */
export async function stopProcess(target: Target): Promise<Stopped> {
  const container = containerFor(target);
  if (container !== undefined) return stopContainer(container, stopOrderOf(target.name));
  return endProcess(orderedToEnd(target), stopOrderOf(target.name));
}

/**
 * Names one run of the process: another after it was started again, `undefined` when it is gone.
 */
export async function runOf(target: Target): Promise<string | undefined> {
  const container = containerFor(target);
  if (container !== undefined) return runOfContainer(container);
  const record = readState(homeAt(target.home)).processes[target.name];
  if (record === undefined || !isSameProcess(record)) return undefined;
  return `${record.pid}/${record.startedAt}`;
}

function containerFor({ home, name }: Target): ContainerTarget | undefined {
  const at = homeAt(home);
  return readState(at).parts === 'docker' ? { home: at, name } : undefined;
}

/** What ends by order stays dead: nobody starts it again but who has it started. */
function orderedToEnd(target: Target): ProcessRecord {
  const record = recordOf(target);
  orderEnd(homeAt(target.home), record);
  return record;
}

function recordOf({ home, name }: Target): ProcessRecord {
  const { processes } = readState(homeAt(home));
  const record = processes[name];
  if (record !== undefined && isSameProcess(record)) return record;
  const running = Object.values(processes)
    .filter(isSameProcess)
    .map((each) => each.name);
  throw new CommandError(`no process ${name} runs here; running: ${running.join(', ') || 'none'}`);
}

/** A container of a home, by the name of the process that it stands for. */
export type ContainerTarget = { home: Home; name: string };

/** Every process in it stands still, connections open: resolves when they do. */
async function pauseContainer(target: ContainerTarget): Promise<void> {
  await docker('pause', (await runningContainer(target)).container);
}

/** Goes on, if it stands still. */
async function continueContainer(target: ContainerTarget): Promise<void> {
  const { container, state } = await runningContainer(target);
  if (state === 'paused') await docker('unpause', container);
}

/** SIGKILL for all that is in it. */
async function killContainer(target: ContainerTarget): Promise<void> {
  await docker('kill', (await runningContainer(target)).container);
}

/** Asks it to finish and end; the engine kills it when that takes too long. */
async function stopContainer(target: ContainerTarget, order: StopOrder): Promise<Stopped> {
  const { container } = await runningContainer(target);
  const seconds = String(Math.ceil(order.withinMs / 1_000));
  await docker('stop', '--time', seconds, container);
  const code = await docker('inspect', '--format', '{{.State.ExitCode}}', container);
  return { outcome: code === '137' ? 'killed' : 'stopped' };
}

/** Names one run of the container; `undefined` when it does not run. */
async function runOfContainer(target: ContainerTarget): Promise<string | undefined> {
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
  throw new CommandError(`no container of ${name} runs here; running: ${names}`);
}
