import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { defaultHome } from './home.ts';
import { takeDown } from './take-down.ts';

/** The home whose parts the tests share. */
export const sharedTestHome = join(defaultHome, 'test');

const folder = join(sharedTestHome, 'homes');
const homeBelow = join('of its own', 'home');

/**
 * Makes a home for one test, all in one folder, so that those of an interrupted run can be found.
 */
export function makeTestHome(): { parent: string; home: string } {
  mkdirSync(folder, { recursive: true });
  const parent = mkdtempSync(join(folder, 'one test '));
  const home = join(parent, homeBelow);
  mkdirSync(home, { recursive: true });
  return { parent, home };
}

/** Stops what a test's home runs and removes it. */
export async function removeTestHome(parent: string): Promise<void> {
  const home = join(parent, homeBelow);
  // A test that made a whole checkout there has its instance in the checkout's default home.
  for (const each of [home, join(home, '.triplock')]) {
    await takeDown({ home: each, data: 'forget' });
  }
  rmSync(parent, { recursive: true, force: true });
}

/** Removes the homes that tests could not remove themselves, because they were killed. */
export async function removeTestHomes(): Promise<void> {
  if (!existsSync(folder)) return;
  const errors: unknown[] = [];
  for (const name of readdirSync(folder)) {
    await removeTestHome(join(folder, name)).catch((error: unknown) => errors.push(error));
  }
  if (errors.length > 0) throw errors[0];
}
