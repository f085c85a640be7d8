import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { commands, operators } from '../commands.mjs';
import { cloneFolder } from '../home.ts';

let runs = 0;

/**
 * Runs a command of the table in this process, as the launcher does in one of its own. Its file
 * runs it by being loaded, and is loaded anew each time; what it imports is not.
 */
export async function runByWords([name, ...args]: readonly string[]): Promise<void> {
  const [file] = commands[name!]!;
  const path = join(cloneFolder, file);
  const words = file === operators ? [name!, ...args] : args;
  process.argv = [process.execPath, path, ...words];
  runs += 1;
  await import(`${pathToFileURL(path).href}?run=${runs}`);
}
