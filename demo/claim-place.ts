import type { Endpoints } from '@triplock/infra';
import type { ClaimSeen } from './trace/read-claim.ts';
import { formatSpan } from './terminal/words.ts';

const places: Readonly<Record<Endpoints['claims'], string>> = {
  redis: 'Redis',
  postgres: 'PostgreSQL',
  hybrid: 'PostgreSQL, with Redis before it',
  dynamodb: 'DynamoDB',
};

/** Where claims are kept, in a person's words. */
export function placeOfClaims({ claims }: Pick<Endpoints, 'claims'>): string {
  return places[claims];
}

/** What is left of a claim: only one in Redis can be looked at from outside. */
export function describeLife(
  claim: ClaimSeen | undefined,
  endpoints: Pick<Endpoints, 'claims'>,
): string {
  if (endpoints.claims !== 'redis') return `is kept in ${placeOfClaims(endpoints)}`;
  return claim === undefined ? 'is gone' : `lives ${formatSpan(claim.leftMs)} more`;
}
