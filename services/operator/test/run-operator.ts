import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache, openCommands, type Cleanup, type Ran } from '@triplock/testing';

type Settings = Readonly<Record<string, string>>;

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const commandLine = { module: new URL('../operate.ts', import.meta.url), name: 'operateByWords' };

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
 * ends after the test or the file.
 */
export function openOperator(test: Cleanup) {
  const run = openCommands(test, commandLine, environmentOf({}));
  return (words: readonly string[], settings: Settings = {}): Promise<Ran> =>
    run(words, environmentOf(settings));
}

function environmentOf(settings: Settings) {
  return { ...compileCache(), NO_COLOR: '1', TRIPLOCK_MODE: 'test', ...settings };
}
