import { once } from 'node:events';
import { connect } from 'node:net';
import type { ClaimStore } from '../claim-store.ts';
import { LauncherError } from '../launcher-error.ts';
import { inNetwork } from './places.ts';

const answersWithinMs = 5_000;

/**
 * The step before the services cannot stop a gateway, and one that goes on with the store of before
 * would take keys that the new store is then asked for in vain.
 *
 * @throws LauncherError while one runs.
 */
export async function refuseWhileGatewaysRun(store: ClaimStore): Promise<void> {
  if (!(await accepts(inNetwork.gateway))) return;
  throw new LauncherError(
    `claims do not move to ${store} while gateways run: docker compose stop ingest-gateway, then up again`,
  );
}

/** The name is not to be had either when no container of it runs. */
async function accepts(address: string): Promise<boolean> {
  const { hostname: host, port } = new URL(`tcp://${address}`);
  const socket = connect({ host, port: Number(port) });
  const signal = AbortSignal.timeout(answersWithinMs);
  const connected = once(socket, 'connect', { signal }).then(
    () => true,
    () => false,
  );
  return connected.finally(() => socket.destroy());
}
