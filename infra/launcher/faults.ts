import {
  continueContainer,
  killContainer,
  pauseContainer,
  runOfContainer,
  stopContainer,
  type ContainerTarget,
} from './containers/container-faults.ts';
import { homeAt } from './home.ts';
import { LauncherError } from './launcher-error.ts';
import { isSameProcess } from './processes/identity.ts';
import {
  killProcessFamily,
  pauseProcessFamily,
  signalFamily,
  stopProcess as endProcess,
  type Stopped,
} from './processes/signal-process.ts';
import { readState, type ProcessRecord } from './state.ts';
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
 * SIGKILL: resolves when the process and everything below it is gone. `bringUp` starts it again.
 */
export async function killProcess(target: Target): Promise<void> {
  const container = containerFor(target);
  if (container !== undefined) return killContainer(container);
  await killProcessFamily(recordOf(target));
}

/**
 * Asks the process to finish what it holds and end, as `down` does, and resolves when it is gone:
 * `killed` says that it took too long. `bringUp` starts it again.
 */
export async function stopProcess(target: Target): Promise<Stopped> {
  const container = containerFor(target);
  if (container !== undefined) return stopContainer(container, stopOrderOf(target.name));
  return endProcess(recordOf(target), stopOrderOf(target.name));
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
  const place = homeAt(home);
  return readState(place).parts === 'docker' ? { home: place, name } : undefined;
}

function recordOf({ home, name }: Target): ProcessRecord {
  const { processes } = readState(homeAt(home));
  const record = processes[name];
  if (record !== undefined && isSameProcess(record)) return record;
  const running = Object.values(processes)
    .filter(isSameProcess)
    .map((each) => each.name);
  throw new LauncherError(`no process ${name} runs here; running: ${running.join(', ') || 'none'}`);
}
