import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { home } from './system.ts';

const root = fileURLToPath(new URL('../', import.meta.url));

/** How a command ended and what it printed. */
export type Ended = { code: number; stdout: string; stderr: string };

/** Runs `npm run <name> -- <args>` on the instance of the promises, as a user would. */
export function command(name: string, ...args: string[]): Promise<Ended> {
  const launcher = ['infra/launcher/triplock.mjs', name, ...args, '--home', home];
  return new Promise((resolve) => {
    execFile(process.execPath, launcher, { cwd: root }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stdout, stderr });
    });
  });
}
