import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '@triplock/command';
import type { Home } from '../home.ts';
import { type ProcessRecord, remember, type Session } from '../session.ts';
import { isSameProcess, listensOn, marksOf, startTimeOf } from './identity.ts';
import { lastLines, logFileOf, openLog } from './logs.ts';

/** The user that a process runs as, when not the launcher's own. */
export type SystemUser = { name: string; uid: number; gid: number };

/** What to run. */
export type Command = {
  file: string;
  args: readonly string[];
  cwd: string;
  settings: Readonly<Record<string, string>>;
  user?: SystemUser;
};

/** A process of this home that was started now or is still there from before. */
export type Running = {
  record: ProcessRecord;
  log: string;
  /** Where in the log the words of this start begin. */
  logFrom: number;
  /** Why it is gone, in a few words; `undefined` while it runs. */
  ended(): string | undefined;
  /** Resolves once that is known; only of one that was started now, whose exit is heard here. */
  exited?(): Promise<void>;
};

/**
 * Starts a process in the background, in a group of its own, so that neither a Ctrl-C nor the end
 * of the launcher reaches it, with its output in the log file of its name.
 */
export async function startProcess(
  session: Session,
  wanted: { name: string; ports: ProcessRecord['ports']; command: Command },
): Promise<Running> {
  session.signal.throwIfAborted();
  const { name, ports, command } = wanted;
  const log = logFileOf(session.home, name);
  const { descriptor, from } = openLog(log);
  const child = spawn(command.file, command.args, {
    cwd: command.cwd,
    env: {
      ...processEnvironment(session.home, command.settings),
      ...temporaryOf(session, command),
    },
    detached: true,
    stdio: ['ignore', descriptor, descriptor],
    ...(command.user && { uid: command.user.uid, gid: command.user.gid }),
  });
  closeSync(descriptor);
  child.unref();
  if (child.pid === undefined) {
    const error = await new Promise<Error>((resolve) => child.once('error', resolve));
    throw new CommandError(`${name}: cannot run ${command.file}: ${error.message}`);
  }
  const startedAt = startTimeOf(child.pid) ?? 'ended at once';
  const settings = hashOf(command);
  const record = { name, pid: child.pid, startedAt, ports, settings, logFrom: from };
  remember(session, record);
  const ended = () => {
    if (child.signalCode !== null) return `was ended by ${child.signalCode}`;
    return child.exitCode === null ? undefined : `exited with code ${child.exitCode}`;
  };
  const exited = async () => {
    if (ended() !== undefined) return;
    // It is in nobody's way otherwise: now it is what is waited for.
    child.ref();
    await once(child, 'exit');
  };
  return { record, log, logFrom: from, ended, exited };
}

/**
 * Where a process in the background has its temporary files: it outlives whoever starts it, and so
 * perhaps that one's own folder for them. Another user has the system's, as a home may be private.
 */
function temporaryOf({ home }: Session, { user }: Command): { TMPDIR?: string } {
  if (user !== undefined) return {};
  mkdirSync(home.temporary, { recursive: true, mode: 0o700 });
  return { TMPDIR: home.temporary };
}

/** A tenth of the others' share where all have work, and no less than they where there is room. */
const behindOthers = 10;
/** Linux takes one change of a group's priority from all users, but root, in so much time. */
const groupPausesMs = 100;

/**
 * Lets others go before a process, where the system offers that. Linux shares out the processor by
 * sessions where autogroups are on (sched(7), "The autogroup feature"), and every process here
 * leads a session of its own: then only the group's priority counts.
 */
export async function yieldToOthers({ pid }: Pick<ProcessRecord, 'pid'>): Promise<void> {
  try {
    setPriority(pid, Math.max(behindOthers, getPriority()));
  } catch {
    return; // It has ended, and whoever waits for it learns why.
  }
  const group = `/proc/${pid}/autogroup`;
  while (existsSync(group)) {
    try {
      return writeFileSync(group, String(behindOthers));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
    }
    await delay(groupPausesMs);
  }
}

/** The process as it was left by an earlier launcher. */
export function stillRunning(session: Session, record: ProcessRecord): Running {
  const ended = () => (isSameProcess(record) ? undefined : 'is gone');
  return { record, log: logFileOf(session.home, record.name), logFrom: 0, ended };
}

/** Tells a process that was started with other settings from one that was not. */
export function hashOf(command: Command): string {
  return createHash('sha256').update(JSON.stringify(command)).digest('hex').slice(0, 16);
}

/** Long enough for a cold start on a busy machine with two slow cores. */
const readyWithinMs = 90_000;
const probeEveryMs = 100;
const probeWithinMs = 3_000;

/**
 * Probes until the process answers, and it is this process that does: on the port of one that could
 * not bind it somebody else's server answers as well.
 *
 * @throws CommandError with its last log lines when it ends, or does not answer in time.
 */
export async function waitUntilReady(
  running: Running,
  probing: { probe: () => Promise<void>; ports: readonly number[]; signal: AbortSignal },
): Promise<void> {
  const deadline = Date.now() + readyWithinMs;
  for (;;) {
    const failure = await probing.probe().then(
      () => findStranger(running.record, probing.ports),
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    probing.signal.throwIfAborted();
    // The system knows of its end before the event that says how is heard here.
    const isGone = !isSameProcess(running.record);
    if (isGone) await running.exited?.();
    const end = running.ended() ?? (isGone ? 'ended' : undefined);
    if (end !== undefined) throw startFailed(running, `${end} before it was ready`);
    if (failure === undefined) return;
    if (Date.now() > deadline) {
      throw startFailed(running, `is not ready after ${readyWithinMs / 1000} s (${failure})`);
    }
    await delay(probeEveryMs, undefined, { signal: probing.signal });
  }
}

/**
 * What is wrong where another process answers in the place of this one; nothing where none does.
 */
export function findStranger(
  { name, pid }: ProcessRecord,
  ports: readonly number[],
): string | undefined {
  const port = ports.find((each) => listensOn(pid, each) === false);
  return port === undefined ? undefined : `what answers on port ${port} is not this ${name}`;
}

function startFailed({ record, log, logFrom }: Running, why: string): CommandError {
  const lines = lastLines(log, { lines: 15, from: logFrom }).map((line) => `  ${line}`);
  return new CommandError([`${record.name} ${why}`, ...lines, `  log: ${log}`].join('\n'));
}

/**
 * Runs tasks at the same time. When one fails the others are asked to give up, and the failure is
 * thrown only when all have ended: nothing is still at work behind the caller's back.
 */
export async function together<Result>(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<Result>)[],
): Promise<Result[]> {
  const givingUp = new AbortController();
  const shared = AbortSignal.any([signal, givingUp.signal]);
  const failures: unknown[] = [];
  const running = tasks.map(async (task) => {
    try {
      return await task(shared);
    } catch (error) {
      failures.push(error);
      givingUp.abort();
      throw error;
    }
  });
  const settled = await Promise.allSettled(running);
  if (failures.length > 0) throw failures[0];
  return settled.map((each) => (each as PromiseFulfilledResult<Result>).value);
}

/** Throws unless the URL answers 200 within 3 s. */
export async function probeHttp(url: string): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(probeWithinMs) });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${url} answers ${response.status} ${body}`);
}

/**
 * Connects to a port of this machine and hangs up: while nobody listens there, which is most of the
 * time of a start, this costs a fifth of a request.
 *
 * @throws what the system says.
 */
export async function connectOnce(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(probeWithinMs) });
  } finally {
    socket.destroy();
  }
}

// Enough for a process to run and to trust the machine's certificates. Nothing else is passed on: a
// proxy setting would send loopback traffic away, and npm's own variables change between calls.
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'NODE_EXTRA_CA_CERTS'];

/**
 * The environment of a process of this home: the mark, what the machine needs, and its own
 * settings.
 */
export function processEnvironment(
  home: Home,
  settings: Readonly<Record<string, string>>,
): Record<string, string> {
  const machine = passedOn.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(machine), ...settings, ...marksOf(home) };
}
