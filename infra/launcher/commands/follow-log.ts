import { createReadStream, statSync, watchFile } from 'node:fs';
import { createInterface } from 'node:readline';

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
