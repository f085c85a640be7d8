import { setTimeout as delay } from 'node:timers/promises';
import { howEnded } from '../ends.ts';
import { forget, type ProcessRecord, type Session, writeState } from '../session.ts';
import {
  findStrays,
  isPaused,
  isSameProcess,
  type ProcessIdentity,
  startTimeOf,
  withDescendants,
} from './identity.ts';

/** How to ask a process to end, and how long it may take before it is made to. */
export type StopOrder = { signal: NodeJS.Signals; withinMs: number };

/** How a process came to its end. */
export type Stopped = { outcome: 'was gone' | 'stopped' | 'killed' };

/** Sends a signal; returns whether the process was there to get it. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** Sends a signal to the process and everything below it, such as PostgreSQL's backends. */
export function signalFamily(pid: number, signal: NodeJS.Signals): void {
  for (const each of withDescendants([pid])) signalProcess(each, signal);
}

/** Asks the process to end and waits; kills it and what it started when it takes too long. */
export async function stopProcess(identity: ProcessIdentity, order: StopOrder): Promise<Stopped> {
  if (!isSameProcess(identity)) return { outcome: 'was gone' };
  signalProcess(identity.pid, order.signal);
  // One that a fault left standing still would never see the request.
  signalFamily(identity.pid, 'SIGCONT');
  if (await isGone(identity, order.withinMs)) return { outcome: 'stopped' };
  await killProcessFamily(identity);
  return { outcome: 'killed' };
}

/**
 * SIGSTOP for the process and everything below it; resolves when it stands still, which a process
 * does when it is next scheduled: on a busy machine that takes a moment.
 *
 * @throws Error when it does not.
 */
export async function pauseProcessFamily({ pid }: ProcessIdentity): Promise<void> {
  signalFamily(pid, 'SIGSTOP');
  const deadline = Date.now() + 10_000;
  while (!isPaused(pid)) {
    if (Date.now() > deadline) throw new Error(`process ${pid} does not stand still after SIGSTOP`);
    await delay(2);
  }
}

/** SIGKILL for the process and everything it started; resolves when all of them are gone. */
export async function killProcessFamily(identity: ProcessIdentity): Promise<void> {
  if (isSameProcess(identity))
    await endFamily(identity.pid, { signal: 'SIGKILL', withinMs: 10_000 });
}

/** Asks a process and everything it started to end, and waits; kills those that take too long. */
export async function endFamily(pid: number | undefined, order: StopOrder): Promise<void> {
  if (pid === undefined) return;
  const family = withDescendants([pid]).flatMap((each) => {
    const startedAt = startTimeOf(each);
    return startedAt === undefined ? [] : [{ pid: each, startedAt }];
  });
  for (const each of family) signalProcess(each.pid, order.signal);
  await Promise.all(
    family.map(async (each) => {
      if (!(await isGone(each, order.withinMs))) signalProcess(each.pid, 'SIGKILL');
    }),
  );
}

async function isGone(identity: ProcessIdentity, withinMs: number): Promise<boolean> {
  const deadline = Date.now() + withinMs;
  while (isSameProcess(identity)) {
    if (Date.now() > deadline) return false;
    await delay(25);
  }
  return true;
}

// PostgreSQL takes SIGINT for "now, cleanly"; every other process of ours takes it for "end".
const strayStop = { signal: 'SIGINT', withinMs: 5_000 } as const;

/**
 * Brings records and processes together after a launcher that was killed: forgets what is gone, and
 * ends what one that is gone had started without recording it. Nothing else is touched.
 */
export async function removeStrays(session: Session): Promise<void> {
  for (const record of Object.values(session.state.processes)) {
    if (!isSameProcess(record)) forgetGone(session, record);
  }
  const recorded = Object.values(session.state.processes).map(({ pid }) => pid);
  // A backend that PostgreSQL has just forked still carries its mark.
  const known = new Set(withDescendants(recorded));
  for (const pid of findStrays(session.home)) {
    const startedAt = startTimeOf(pid);
    if (known.has(pid) || startedAt === undefined) continue;
    session.report(`ending process ${pid}, which an interrupted launcher left behind`);
    await stopProcess({ pid, startedAt }, strayStop);
  }
}

/** What ended by itself is kept in mind for whoever starts it again (agent/watch.ts). */
function forgetGone(session: Session, record: ProcessRecord): void {
  const { home, state } = session;
  forget(session, record.name);
  if (howEnded(home, record).by !== 'itself') return;
  state.ended = { ...state.ended, [record.name]: record };
  writeState(home, state);
}
