import { UsageError } from './launcher-error.ts';
import type { OptionalPartName } from './parts/part.ts';

/** Where the gateways keep their claims. */
export type ClaimStore = (typeof claimStores)[number];

export const claimStores = ['redis', 'postgres', 'hybrid', 'dynamodb'] as const;

/** The part that a claim store needs beside the usual ones. */
export function partsFor(store: ClaimStore | undefined): OptionalPartName[] {
  return store === 'dynamodb' ? ['dynamodb'] : [];
}

/** The word after `--claims`. */
export function parseClaimStore(text: string | undefined): ClaimStore | undefined {
  if (text === undefined) return undefined;
  const store = claimStores.find((each) => each === text);
  if (store === undefined) {
    throw new UsageError(`--claims ${text} is not known: it takes ${claimStores.join(', ')}`);
  }
  return store;
}
