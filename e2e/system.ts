import { fileURLToPath } from 'node:url';
import { bringUp, type Endpoints } from '@triplock/infra';

/** The instance that all promises are tried on: its own ports and data, two of each service. */
export const home = fileURLToPath(new URL('../.triplock/e2e', import.meta.url));

let system: Promise<Endpoints> | undefined;

/**
 * Brings the system up, or finds it up: what a promise broke on purpose is started again, the rest
 * is left alone. `npm test` takes it down at the end; after a single file it stays up for the next.
 */
export function upSystem(): Promise<Endpoints> {
  system ??= restore();
  return system;
}

/** Starts again what a test has killed. */
export function restore(): Promise<Endpoints> {
  return bringUp({ home, replicas: 2 });
}
