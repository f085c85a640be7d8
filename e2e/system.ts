import { fileURLToPath } from 'node:url';
import { bringUp, type Endpoints } from '@triplock/launcher';

const homeNamed = (name: string) => fileURLToPath(new URL(`../.triplock/${name}`, import.meta.url));

/** The instance of `npm run prove`, which tells the promises of it by TRIPLOCK_E2E_HOME. */
export const proveHome = homeNamed('prove');

/** The instance that all promises are tried on: its own ports and data, two of each service. */
const given = process.env['TRIPLOCK_E2E_HOME'];
export const home = given ?? homeNamed('e2e');

let system: Promise<Endpoints> | undefined;

/**
 * Brings the system up, or finds it up: what a promise broke on purpose is started again, the rest
 * is left alone. `npm test` takes it down at the end; after a single file it stays up for the next.
 */
export function upSystem(): Promise<Endpoints> {
  system ??= restore();
  return system;
}

/**
 * Starts again what a test has killed. A new system is in containers where an engine has the
 * images, as the parts of the other tests are, and in processes else; TRIPLOCK_TEST_PARTS decides
 * it too.
 */
export function restore(): Promise<Endpoints> {
  return bringUp({ home, replicas: 2, ...(given === undefined && { parts: partsAsked() }) });
}

function partsAsked() {
  const asked = process.env['TRIPLOCK_TEST_PARTS']?.trim();
  if (asked === 'native') return 'native';
  return asked === 'containers' ? 'docker' : 'choose';
}
