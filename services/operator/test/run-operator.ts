import { execFile, fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { compileCache, type Cleanup } from '@triplock/testing';

/** What a command printed, and how it ended. */
export type Ran = { code: number; stdout: string; stderr: string };

/** What a command is given: its words, and all that it knows of the environment. */
export type ToRun = {
  words: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
};

type Settings = Readonly<Record<string, string>>;

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const one = fileURLToPath(new URL('./one-after-another.ts', import.meta.url));

/**
 * Runs one command to its end in a process of its own, as a container would: nothing but these
 * settings is known, and to Node where the run keeps what it has compiled.
 */
export function runAsProcess(words: readonly string[], settings: Settings = {}): Promise<Ran> {
  const env = environmentOf(settings);
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...words], { env }, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error ? 1 : 0;
      resolve({ code, stdout, stderr });
    });
  });
}

/**
 * Gives what runs commands as {@link runAsProcess} does, one after the other in one process, which
 * is started for the first and ends after the test or the file: most of what a command takes is
 * Node's start and the loading of modules.
 */
export function openOperator(test: Cleanup) {
  let started: ChildProcess | undefined;
  let before: Promise<unknown> = Promise.resolve();
  const start = () => {
    const child = fork(one, {
      env: environmentOf({}),
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
  return (words: readonly string[], settings: Settings = {}): Promise<Ran> => {
    const next = before.then(() => run({ words, environment: environmentOf(settings) }));
    before = next.catch(() => undefined);
    return next;
  };
}

function environmentOf(settings: Settings) {
  return { ...compileCache(), NO_COLOR: '1', TRIPLOCK_MODE: 'test', ...settings };
}
