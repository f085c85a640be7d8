import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Cleanup } from './isolation.ts';

/** What a command printed, and how it ended. */
export type Ran = { code: number; stdout: string; stderr: string };

/** What a command is given: its words, and all that it knows of the environment. */
export type ToRun = { words: readonly string[]; environment: Environment };
type Environment = Readonly<NodeJS.ProcessEnv>;

/** Runs a command to its end by its words, and sets the exit code of the process. */
export type CommandLine = (words: readonly string[]) => Promise<void>;

const one = fileURLToPath(new URL('./one-after-another.ts', import.meta.url));

/**
 * Gives what runs commands as a process of their own each would, one after the other in one
 * process, which is started for the first and ends after the test or the file: most of what a
 * command takes is Node's start and the loading of modules.
 *
 * @param commandLine where its function is: a module, and the name of a {@link CommandLine} in it.
 * @param environment what Node itself is told, once for all.
 */
export function openCommands(
  test: Cleanup,
  { module, name }: { module: URL; name: string },
  environment: Environment,
) {
  let started: ChildProcess | undefined;
  let before: Promise<unknown> = Promise.resolve();
  const start = () => {
    const child = fork(one, [module.href, name], {
      env: { ...environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    test.after(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    });
    return child;
  };
  const run = async (toRun: ToRun): Promise<Ran> => {
    const child = (started ??= start());
    const over = new AbortController();
    const { signal } = over;
    const ended = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`${toRun.words.join(' ')} ended the process: exit code ${code}`);
    });
    const ran = once(child, 'message', { signal });
    child.send(toRun);
    try {
      const [answer] = (await Promise.race([ran, ended])) as [Ran];
      return answer;
    } finally {
      ended.catch(() => undefined);
      ran.catch(() => undefined);
      over.abort();
    }
  };
  return (words: readonly string[], known: Environment = environment): Promise<Ran> => {
    const next = before.then(() => run({ words, environment: known }));
    before = next.catch(() => undefined);
    return next;
  };
}
