import {
  claimStores,
  provisionClaimStore,
  storeNamed,
  type ClaimStoreSettings,
} from '@triplock/claim-stores';
import { partnerLimits } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { createLogger } from '@triplock/runtime';
import type { ClaimStore, Stores } from '../choices.ts';
import { usualNames } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import { serviceOf } from '../services.ts';
import type { Report, Session } from '../session.ts';
import { stopByName } from '../stop-order.ts';
import { claimStoreAt } from '../wiring.ts';
import type { DatabaseUrls } from './database.ts';

/** Where the stores are, and in which of them claims are kept from now on. */
export type ClaimLocation = { store: ClaimStore; addresses: Addresses; databases: DatabaseUrls };

/** Whose claims they are: what is remembered of them, and how no gateway is left that takes any. */
export type ClaimUsers = {
  state: Stores;
  report: Report;
  stopGateways(): Promise<void>;
};

/**
 * Has the claim store ready before a gateway starts.
 *
 * Where claims were kept elsewhere until now, the new store knows nothing of the latest ones,
 * though it may remember that it was once complete. So the gateways are stopped first, all of them,
 * and the store is made cold: the ledger answers for keys that it does not know, and gateways read
 * back from it which were used.
 */
export async function provisionClaims(system: ClaimUsers, location: ClaimLocation): Promise<void> {
  const { store } = location;
  const { state, report } = system;
  await provisionClaimStore(settingsAt(location));
  const before = state.claims;
  if (before !== undefined && movesClaims(before, store)) {
    await system.stopGateways();
    await markAllCold(location);
    report(
      `claims: kept in ${store} from now on and no longer in ${before}; ` +
        'until they are read back the ledger answers for keys that it does not know',
    );
  }
  state.claims = store;
}

/** The launcher's own processes, as users of the claims. */
export function gatewaysOf(session: Session): ClaimUsers {
  const { state, report } = session;
  const gateways = Object.keys(state.processes).filter(isGateway);
  return { state, report, stopGateways: () => stopByName(session, gateways) };
}

const isGateway = (name: string) => serviceOf(name) === 'ingest-gateway';

/** Whether claims that one store has are not in the other. */
export function movesClaims(from: ClaimStore, to: ClaimStore): boolean {
  // A cache before the one that decides changes nothing.
  return claimStores[from].parts[0] !== claimStores[to].parts[0];
}

async function markAllCold(location: ClaimLocation): Promise<void> {
  const logger = createLogger({ service: 'launcher', instance: 'launcher', level: 'silent' });
  const claims = await storeNamed(location.store).open(settingsAt(location), {
    namespace: usualNames.claims,
    applicationName: 'launcher',
    logger,
    ...partnerLimits,
  });
  try {
    for (let bucket = 0; bucket < bucketCount; bucket += 1) await claims.markCold(bucket);
  } finally {
    await claims.close();
  }
}

function settingsAt({ store, addresses, databases }: ClaimLocation): ClaimStoreSettings {
  return claimStoreAt(store, { ...addresses, postgres: databases.claims }, usualNames.claims);
}
