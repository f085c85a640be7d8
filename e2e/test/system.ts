import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type ClaimsInspector, inspectClaims } from '@triplock/claims-inspector';
import { bringUp, type Endpoints, usualNames } from '@triplock/launcher';
import { openRecorder, type Recorder } from './recorder.ts';
import { partner, type Partner } from './partner.ts';

/** Set by `npm run prove`, which tries promises on instances of its own. */
const given = process.env['TRIPLOCK_E2E_HOME'];

/** The instance that all promises are tried on: its own ports and data, two of each service. */
export const home = given ?? fileURLToPath(new URL('../../.triplock/e2e', import.meta.url));

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

/** The running system as a file's tests see it. */
export type Setup = {
  system: Endpoints;
  acme: Partner;
  globex: Partner;
  look: Recorder;
  /** The claim store, past the gateways. */
  claims: ClaimsInspector;
};

/**
 * Has the system up before the file's tests run, and then what else they need: hooks of a file do
 * not wait for one another. What this returns is filled in by the time a test runs.
 */
export function onTheSystem(prepare?: (setup: Setup) => Promise<void>): Setup {
  const setup = {} as Setup;
  before(async () => {
    const system = await upSystem();
    const [acme, globex] = [partner(system, 'acme'), partner(system, 'globex')];
    const claims = inspectClaims({ ...system, namespace: usualNames.claims });
    const look = openRecorder(system);
    Object.assign(setup, { system, acme, globex, look, claims } satisfies Setup);
    await prepare?.(setup);
  });
  after(() => Promise.all([setup.look?.close(), setup.claims?.close()]));
  return setup;
}
