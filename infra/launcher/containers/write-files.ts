import { writeFileSync } from 'node:fs';
import { services, type Wiring } from '../services.ts';
import { fileOf, toldByFile, writtenAt } from './places.ts';

/** Leaves for each service what it is told by files, and nothing of what others are told. */
export function writeFilesOfServices(wiring: Wiring): void {
  for (const service of services) {
    const settings = service.settings(wiring);
    for (const name of toldByFile) {
      // An empty file says nothing: a service names it also where the stores leave it out.
      const file = writtenAt(service.name, fileOf(name));
      writeFileSync(file, settings[name] ?? '', { mode: 0o600 });
    }
  }
}
