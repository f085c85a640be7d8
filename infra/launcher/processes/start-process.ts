import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync } from 'node:fs';
import { LauncherError } from '../launcher-error.ts';
import { remember, type Session } from '../session.ts';
import type { ProcessRecord } from '../state.ts';
import { processEnvironment } from './environment.ts';
import { isSameProcess, startTimeOf } from './identity.ts';
import { logFileOf, openLog } from './log-file.ts';

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
    env: processEnvironment(session.home, command.settings),
    detached: true,
    stdio: ['ignore', descriptor, descriptor],
    ...(command.user && { uid: command.user.uid, gid: command.user.gid }),
  });
  closeSync(descriptor);
  child.unref();
  if (child.pid === undefined) {
    const error = await new Promise<Error>((resolve) => child.once('error', resolve));
    throw new LauncherError(`${name}: cannot run ${command.file}: ${error.message}`);
  }
  const startedAt = startTimeOf(child.pid) ?? 'ended at once';
  const record = { name, pid: child.pid, startedAt, ports, settings: hashOf(command) };
  remember(session, record);
  const ended = () => {
    if (child.signalCode !== null) return `was ended by ${child.signalCode}`;
    return child.exitCode === null ? undefined : `exited with code ${child.exitCode}`;
  };
  return { record, log, logFrom: from, ended };
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
