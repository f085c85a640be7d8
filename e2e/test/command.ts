import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { home } from './system.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

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

/** What a command came to that was interrupted. */
export type Interrupted = { code: number; output: string };

/**
 * Runs a command of the running system as a person does, and presses Ctrl-C once it has printed the
 * words, after `look`. What it prints afterwards is read to its end.
 */
export async function interruptAt(
  words: RegExp,
  args: readonly string[],
  look: () => Promise<void> = async () => undefined,
): Promise<Interrupted> {
  const command = ['infra/launcher/triplock.mjs', ...args, '--home', home];
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, command, { cwd: root, stdio: [...stdio] });
  const exit = once(child, 'exit');
  let output = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    const before = words.test(output);
    output += String(text);
    if (before || !words.test(output)) continue;
    await look();
    child.kill('SIGINT');
  }
  const [code] = (await exit) as [number];
  return { code, output };
}
