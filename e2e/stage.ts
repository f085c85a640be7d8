import { after, before } from 'node:test';
import { usualNames, type Endpoints } from '@triplock/launcher';
import { inspectClaims, type ClaimsInspector } from '@triplock/claims-inspector';
import { partner, type Partner } from './partner.ts';
import { upSystem } from './system.ts';
import { witness, type Witness } from './witness.ts';

/** The running system as a file's tests see it. */
export type Stage = {
  system: Endpoints;
  acme: Partner;
  globex: Partner;
  look: Witness;
  /** The claim store, past the gateways. */
  claims: ClaimsInspector;
};

/**
 * Has the system up before the file's tests run, and then what else they need: hooks of a file do
 * not wait for one another. What this returns is filled in by the time a test runs.
 */
export function onTheSystem(prepare?: (stage: Stage) => Promise<void>): Stage {
  const stage = {} as Stage;
  before(async () => {
    const system = await upSystem();
    const [acme, globex] = [partner(system, 'acme'), partner(system, 'globex')];
    const claims = inspectClaims({ ...system, namespace: usualNames.claims });
    const look = witness(system);
    Object.assign(stage, { system, acme, globex, look, claims } satisfies Stage);
    await prepare?.(stage);
  });
  after(() => Promise.all([stage.look?.close(), stage.claims?.close()]));
  return stage;
}
