import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** The value in a JSON file, or `undefined` when there is no such file or it was cut off. */
export function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    // Half a file is left only by a machine that lost power; its processes are gone as well.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

/** Replaces the file in one step and keeps it from other users: these files hold credentials. */
export function writeJson(file: string, value: unknown): void {
  const next = `${file}.${process.pid}.next`;
  writeFileSync(next, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(next, file);
}
