import { homeAt } from './home.ts';
import { LauncherError } from './launcher-error.ts';
import { isPaused, isSameProcess } from './processes/identity.ts';
import {
  killProcessFamily,
  signalFamily,
  stopProcess as endProcess,
  type Stopped,
} from './processes/signal-process.ts';
import { readState, type ProcessRecord } from './state.ts';
import { stopOrderOf } from './stop-order.ts';

/** A process of a home by its name: a part, or `<service>-<replica>`. */
export type Target = { home?: string; name: string };

/** SIGSTOP: returns when the process and everything below it stand still, connections open. */
export function pauseProcess(target: Target): void {
  const { pid } = recordOf(target);
  signalFamily(pid, 'SIGSTOP');
  // A process stops when it is next scheduled, which on a busy machine takes a moment.
  const deadline = Date.now() + stopsWithinMs;
  while (!isPaused(pid) && Date.now() < deadline) Atomics.wait(clock, 0, 0, 2);
}

const stopsWithinMs = 2_000;
const clock = new Int32Array(new SharedArrayBuffer(4));

/** SIGCONT: a paused process goes on. */
export function continueProcess(target: Target): void {
  signalFamily(recordOf(target).pid, 'SIGCONT');
}

/** SIGKILL: resolves when the process and everything below it is gone. `bringUp` starts it again. */
export async function killProcess(target: Target): Promise<void> {
  await killProcessFamily(recordOf(target));
}

/**
 * Asks the process to finish what it holds and end, as `down` does, and resolves when it is gone:
 * `killed` says that it took too long. `bringUp` starts it again.
 */
export function stopProcess(target: Target): Promise<Stopped> {
  return endProcess(recordOf(target), stopOrderOf(target.name));
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
