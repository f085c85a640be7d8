import { claimParts } from '@triplock/claim-stores';
import { ledgerParts } from '@triplock/ledgers';
import type { Licensed } from './allowed.ts';

/*
 * What is known by other means to be fetched, so that whoever reads it from the sources, and from
 * what Maven and pip resolve, cannot pass a whole kind of it over.
 */

/** One of each way of fetching, with what it is under by its own page. */
const knownByHand: readonly Omit<Licensed, 'place'>[] = [
  { source: 'image', name: 'postgres (PostgreSQL)', version: '18.4-alpine', licence: 'PostgreSQL' },
  { source: 'image', name: 'node (Node.js)', version: '24.21.0-slim', licence: 'MIT' },
  { source: 'image', name: 'grafana/k6 (k6)', version: '1.8.1', licence: 'AGPL-3.0-only' },
  { source: 'Go', name: 'go.k6.io/k6 (k6)', version: 'v1.8.1', licence: 'AGPL-3.0-only' },
  {
    source: 'Go',
    name: 'github.com/ogen-go/ogen (ogen)',
    version: 'v1.24.0',
    licence: 'Apache-2.0',
  },
  { source: 'PyPI', name: 'standardwebhooks', version: '1.1.0', licence: 'MIT' },
  {
    source: 'Maven',
    name: 'org.apache.kafka:kafka-server',
    version: '4.3.1',
    licence: 'Apache-2.0',
  },
  // Neither says itself what it is under: a POM above it does.
  {
    source: 'Maven',
    name: 'commons-beanutils:commons-beanutils',
    version: '1.11.0',
    licence: 'Apache-2.0',
  },
  { source: 'Maven', name: 'org.slf4j:slf4j-api', version: '1.7.36', licence: 'MIT' },
];

/** Of each source that resolves what others ask for, fewer than there have ever been. */
const leastOf = { npm: 500, Maven: 40 } as const;

/** What should be among the licences that were read and is not, each in a line. */
export function findPassedOver(found: readonly Licensed[]): string[] {
  const isFound = (wanted: (each: Licensed) => boolean) => found.some(wanted);
  const unread = knownByHand.filter(
    (known) =>
      !isFound(
        ({ source, name, version, licence }) =>
          source === known.source &&
          name === known.name &&
          version === known.version &&
          licence === known.licence,
      ),
  );
  const parts = [...claimParts, ...ledgerParts].flatMap(({ licences }) => licences);
  return [
    ...unread.map(
      ({ source, name, version, licence }) =>
        `${source} ${name} ${version} is not found under ${licence}: where it was changed, change ` +
        'infra/lint/licences/passed-over.ts too',
    ),
    ...parts
      .map(({ name, program }) => `${name} (${program})`)
      .filter((whole) => !isFound(({ name }) => name === whole))
      .map((whole) => `a store's part, ${whole}, is not found`),
    ...Object.entries(leastOf)
      .map(([source, least]) => ({
        source,
        least,
        count: found.filter((each) => each.source === source).length,
      }))
      .filter(({ least, count }) => count <= least)
      .map(({ source, least, count }) => `${source}: ${count} are found, of more than ${least}`),
  ];
}
