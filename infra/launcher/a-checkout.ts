import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { aHome, type Ran } from './a-home.ts';
import { cloneFolder, partsCache } from './home.ts';

/** A second clone of this repository, with a default home of its own. */
export type Checkout = {
  folder: string;
  /** `<folder>/.triplock`. */
  home: string;
  /** Runs a command of this clone's launcher, as `npm run` does once everything is installed. */
  run(command: 'up' | 'down' | 'status', ...args: string[]): Promise<Ran>;
};

/** Copies the launcher; what was installed and fetched is shared, because nothing writes to it. */
export function aCheckout(test: TestContext): Checkout {
  const folder = aHome(test);
  const home = join(folder, '.triplock');
  mkdirSync(home);
  symlinkSync(partsCache, join(home, 'parts'));
  symlinkSync(join(cloneFolder, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(cloneFolder, 'infra'), join(folder, 'infra'), { recursive: true });
  return {
    folder,
    home,
    run: (command, ...args) =>
      new Promise((resolve) => {
        const file = join(folder, 'infra', 'launcher', 'commands', `${command}.ts`);
        execFile(process.execPath, [file, ...args], (error, stdout, stderr) => {
          const code = typeof error?.code === 'number' ? error.code : error ? 1 : 0;
          resolve({ code, stdout, stderr });
        });
      }),
  };
}
