import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { CommandError } from '@triplock/command';
import type { Session } from '../session.ts';
import { lastLines, logFileOf, openLog } from './logs.ts';
import { type Command, processEnvironment } from './start.ts';
import { endFamily } from './stop.ts';

/** How often a tool that takes long says so: often enough that nobody thinks it hangs. */
const progressEveryMs = 4_000;
/** What a tool that is told to end may take to put its files away. */
const toolStop = { signal: 'SIGTERM', withinMs: 5_000 } as const;

/**
 * Runs a program to its end, with its output in a log file of its own. When the session is broken
 * off the tool is told to end with all that it started, and waited for: whoever then removes its
 * files removes all of them.
 *
 * @throws CommandError with the last lines of that log when it fails.
 */
export async function runTool(
  session: Session,
  tool: {
    name: string;
    doing: string;
    command: Command;
    /** What it is at, by all lines that it has printed; its last line unless given. */
    stepOf?: (lines: readonly string[]) => string;
  },
): Promise<void> {
  const { name, doing, command, stepOf = (lines) => lines.at(-1) ?? '' } = tool;
  const log = logFileOf(session.home, name);
  const { descriptor, from } = openLog(log);
  const startedMs = Date.now();
  const progress = setInterval(() => {
    const seconds = Math.round((Date.now() - startedMs) / 1000);
    const words = stepOf(lastLines(log, { lines: Infinity, from }));
    session.report(`${doing} (${seconds} s) ${words.slice(0, 100)}`);
  }, progressEveryMs);
  try {
    session.signal.throwIfAborted();
    const child = spawn(command.file, command.args, {
      cwd: command.cwd,
      env: { ...processEnvironment(session.home, command.settings), ...callersTemporary() },
      stdio: ['ignore', descriptor, descriptor],
      ...(command.user && { uid: command.user.uid, gid: command.user.gid }),
    });
    let gone = Promise.resolve();
    const end = () => {
      gone = endFamily(child.pid, toolStop);
    };
    session.signal.addEventListener('abort', end);
    const problem = await new Promise<string | undefined>((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) =>
        resolve(code === 0 ? undefined : (signal ?? `exit code ${code}`)),
      );
    });
    session.signal.removeEventListener('abort', end);
    await gone;
    session.signal.throwIfAborted();
    if (problem === undefined) return;
    const lines = lastLines(log, { lines: 15, from }).map((line) => `  ${line}`);
    throw new CommandError([`${doing} failed: ${problem}`, ...lines, `  log: ${log}`].join('\n'));
  } finally {
    clearInterval(progress);
    closeSync(descriptor);
  }
}

/** A program that ends before its caller does has its temporary files where the caller has them. */
function callersTemporary(): { TMPDIR?: string } {
  const { TMPDIR } = process.env;
  return TMPDIR === undefined ? {} : { TMPDIR };
}
