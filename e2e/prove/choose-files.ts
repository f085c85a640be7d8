import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UsageError } from '@triplock/infra';

const folder = fileURLToPath(new URL('../', import.meta.url));

/** The promises that rest on guard 1 most: what `--short` runs. */
const shortFiles = [
  'one-payment',
  'identical-at-once',
  'claims-forgotten',
  'refused-requests',
  'postgres-away',
  'the-audit-balances',
];

/** Where a promise is the same wherever claims are kept, and why: it is tried on one store. */
const sameOnEveryStore: Readonly<Record<string, string>> = {
  bench: 'it is about a command, and what a claim costs is measured by npm run compare',
  boot: 'each store’s own refusals are tried beside the gateway',
  'dispatcher-stands-still': 'it begins at the outbox, where no claim is seen any more',
  'events-in-order': 'it begins at the outbox, where no claim is seen any more',
  'list-while-paying': 'lists are read from the ledger',
  'poison-events': 'it begins at Pub/Sub, where no claim is seen any more',
  'poison-records': 'its records are appended to Kafka past the gateway',
  'pubsub-forgets': 'it begins at Pub/Sub, where no claim is seen any more',
  'scenario-interrupted': 'it is about a command, whatever store is there',
  'webhook-endpoint': 'a PUT that says the same again has the same effect, without a claim',
  'without-a-guard': 'the second system that it tries has claims in Redis or none',
};

/** A promise of e2e/ by its file's name without `.test.ts`. */
export type PromiseFile = {
  name: string;
  path: string;
  /** Why one store is enough. */
  sameOnEvery?: string;
};

/** The files to run, by name; all of e2e/ when nothing is asked for.  @throws UsageError for an unknown one. */
export function chooseFiles(asked: { only: readonly string[]; short: boolean }): PromiseFile[] {
  const all = globSync('*.test.ts', { cwd: folder })
    .map((file) => file.replace(/\.test\.ts$/, ''))
    .sort();
  const unknown = [...asked.only, ...shortFiles, ...Object.keys(sameOnEveryStore)].filter(
    (name) => !all.includes(name),
  );
  if (unknown.length > 0) {
    throw new UsageError(`${unknown.join(', ')}: no such promise; there are ${all.join(', ')}`);
  }
  const wanted = asked.only.length > 0 ? asked.only : asked.short ? shortFiles : all;
  return all
    .filter((name) => wanted.includes(name))
    .map((name) => {
      const why = sameOnEveryStore[name];
      const path = `${folder}${name}.test.ts`;
      return { name, path, ...(why !== undefined && { sameOnEvery: why }) };
    });
}
