import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** The absolute path of a program on PATH. */
export function findOnPath(program: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

/** What the program says of itself, or `undefined` when it does not run here. */
export async function askVersion(file: string, flag: string): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)(file, [flag], { timeout: 30_000 });
    return `${stdout}${stderr}`.trim();
  } catch {
    // Built for another machine, or a stand-in that only tells where to download it.
    return undefined;
  }
}

/** Follows the links of a path that exists. */
export const resolved = (path: string) => realpathSync(path);

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
