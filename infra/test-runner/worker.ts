// One process of the pool: runs the files that it is asked to, one after the other, each as a suite
// of its own, whose hooks are therefore its own too. What they import is compiled once.
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { suite } from 'node:test';
import { pathToFileURL } from 'node:url';
import { tell, untilFileIsTold, type WorkerRequest } from './events.ts';
import { leftBehindSince, remember } from './left-behind.ts';
import { cpuSeconds, endFamily } from './processes.ts';
import { settingsIn } from './settings.ts';

const { goneMs } = settingsIn(process.env);
/** In a folder of the pool's for this process. */
const temporary = tmpdir();

// Of one that comes when its test is over the runner tells no more than that it came.
process.on('unhandledRejection', (error) => console.error(error));
process.on('uncaughtException', (error) => console.error(error));
process.on('message', ({ run }: WorkerRequest) => void runFile(run));
// The pool was killed, and cleans up nothing.
process.on('disconnect', () => {
  endFamily(process.pid, temporary);
  rmSync(dirname(temporary), { recursive: true, force: true, maxRetries: 5 });
  process.exit();
});

async function runFile(file: string): Promise<void> {
  const before = remember();
  const used = cpuSeconds();
  const isTold = untilFileIsTold();
  void suite(file, async () => {
    await import(pathToFileURL(file).href);
  });
  await isTold;
  const leftBehind = await leftBehindSince(before, goneMs);
  tell({ is: 'file', leftBehind, cpuSeconds: cpuSeconds() - used });
}
