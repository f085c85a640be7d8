import {
  closeSync,
  createReadStream,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  watchFile,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Home } from '../home.ts';

/** A log beyond this is set aside at the next start, as one older file: 20 MiB. */
const logBytesMax = 20 * 1024 * 1024;

/** Where a process's output goes. */
export function logFileOf(home: Home, name: string): string {
  return join(home.logs, `${name}.log`);
}

/** Opens the log to append to; `from` is where the words of the coming start begin. */
export function openLog(file: string): { descriptor: number; from: number } {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > logBytesMax) renameSync(file, `${file}.1`);
  return { descriptor: openSync(file, 'a', 0o600), from: size > logBytesMax ? 0 : size };
}

/** The last lines of a file after a byte offset, all of them whole. */
export function lastLines(file: string, wanted: { lines: number; from?: number }): string[] {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return [];
  const descriptor = openSync(file, 'r');
  try {
    const { size } = fstatSync(descriptor);
    const from = wanted.from ?? 0;
    // Twice as much from the end each time, until the first line that is wanted is whole.
    for (let bytes = 64 * 1024; ; bytes *= 2) {
      const start = Math.max(from, size - bytes);
      const lines = linesFrom(descriptor, { start, end: size });
      if (start <= from || lines.length > wanted.lines) return lines.slice(-wanted.lines);
    }
  } finally {
    closeSync(descriptor);
  }
}

function linesFrom(descriptor: number, { start, end }: { start: number; end: number }): string[] {
  const buffer = Buffer.alloc(Math.max(0, end - start));
  readSync(descriptor, buffer, 0, buffer.length, start);
  return buffer.toString('utf8').trimEnd().split('\n').filter(Boolean);
}

/** Shows each line that is appended to the file from now on, until the process ends. */
export function followLog(file: string, show: (line: string) => void): void {
  let shown = statSync(file).size;
  let reading = Promise.resolve();
  watchFile(file, { interval: 200 }, ({ size }) => {
    reading = reading.then(async () => {
      // Set aside and begun anew.
      if (size < shown) shown = 0;
      if (size === shown) return;
      const stream = createReadStream(file, { start: shown, end: size - 1 });
      shown = size;
      for await (const line of createInterface({ input: stream })) show(line);
    });
  });
}
