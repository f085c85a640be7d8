import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache } from '@triplock/testing';

/** What a command printed, and how it ended. */
export type Ran = { code: number; stdout: string; stderr: string };

const main = fileURLToPath(new URL('../main.ts', import.meta.url));

/**
 * Runs one command to its end, as a container would: nothing but these settings is known, and to
 * Node where the run keeps what it has compiled.
 */
export function runOperator(
  args: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const env = { ...compileCache(), NO_COLOR: '1', TRIPLOCK_MODE: 'test', ...settings };
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env }, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error ? 1 : 0;
      resolve({ code, stdout, stderr });
    });
  });
}
