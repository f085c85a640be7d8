import { LauncherError, UsageError } from './launcher-error.ts';
import type { OptionalPartName } from './parts/part.ts';
import type { Addresses } from './parts/start-parts.ts';
import type { DatabaseUrls } from './provision/database.ts';

/** Where the gateways keep their claims. */
export type ClaimStore = (typeof claimStores)[number];

export const claimStores = ['redis', 'postgres', 'hybrid', 'dynamodb'] as const;

/** The part that a claim store needs beside the usual ones. */
export function partsFor(store: ClaimStore | undefined): OptionalPartName[] {
  return store === 'dynamodb' ? ['dynamodb'] : [];
}

/** The word after `--claims`, or after what else it is asked for by. */
export function parseClaimStore(
  text: string | undefined,
  asked = '--claims ',
): ClaimStore | undefined {
  if (text === undefined) return undefined;
  const store = claimStores.find((each) => each === text);
  if (store === undefined) {
    throw new UsageError(`${asked}${text} is not known: it takes ${claimStores.join(', ')}`);
  }
  return store;
}

/** A gateway's settings for its claims. */
export function claimSettings(wiring: {
  claims: ClaimStore;
  addresses: Addresses;
  databases: Pick<DatabaseUrls, 'claims'>;
}): Readonly<Record<string, string>> {
  const { claims, addresses, databases } = wiring;
  const named = { CLAIMS: claims };
  switch (claims) {
    case 'redis':
      return { ...named, REDIS_URL: addresses.redis };
    case 'postgres':
      return { ...named, CLAIMS_DATABASE_URL: databases.claims };
    case 'hybrid':
      return { ...named, CLAIMS_DATABASE_URL: databases.claims, REDIS_URL: addresses.redis };
    case 'dynamodb': {
      const { region, table, emulator } = dynamoPlace(addresses);
      const place = { DYNAMODB_REGION: region, DYNAMODB_TABLE: table };
      return { ...named, ...place, DYNAMODB_ENDPOINT: emulator };
    }
    default:
      return claims satisfies never;
  }
}

/** The table of the claims in DynamoDB Local. */
export function dynamoPlace({ dynamodb: emulator }: Addresses) {
  if (emulator === undefined) {
    throw new LauncherError('claims in dynamodb need DynamoDB Local, which does not run here');
  }
  return { region: 'eu-central-1', table: 'triplock-claims', emulator };
}
