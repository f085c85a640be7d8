import { formatSpan } from '@triplock/operator';
import type { Endpoints } from '@triplock/launcher';
import type { ClaimSeen } from '@triplock/claims-inspector';

const claimPlaces: Readonly<Record<Endpoints['claims'], string>> = {
  redis: 'Redis',
  postgres: 'PostgreSQL',
  hybrid: 'PostgreSQL, with Redis before it',
  dynamodb: 'DynamoDB',
};

/** Where claims are kept, in a person's words. */
export function placeOfClaims({ claims }: Pick<Endpoints, 'claims'>): string {
  return claimPlaces[claims];
}

const ledgerPlaces: Readonly<Record<Endpoints['ledger'], string>> = {
  postgres: 'PostgreSQL',
  spanner: 'Cloud Spanner (its emulator)',
};

/** Where the ledger is kept, in a person's words. */
export function placeOfLedger({ ledger }: Pick<Endpoints, 'ledger'>): string {
  return ledgerPlaces[ledger];
}

/** What is left of a claim. */
export function describeLife(claim: ClaimSeen | undefined): string {
  return claim === undefined ? 'is gone' : `lives ${formatSpan(claim.leftMs)} more`;
}
