import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LedgerStore, UsageError } from '@triplock/launcher';

const folder = fileURLToPath(new URL('../', import.meta.url));

/** A campaign's files, below e2e/: what `npm test` runs too, long faults, and guards taken away. */
const campaigns = {
  stores: ['*.test.ts', 'faults/*.test.ts'],
  faults: ['faults/*.test.ts'],
  sabotage: ['sabotage/*.test.ts'],
} as const;

export type Campaign = keyof typeof campaigns;

/** The argument after `prove --`.  @throws UsageError that names the campaigns there are. */
export function chooseCampaign(word: string | undefined): Campaign {
  const known = Object.keys(campaigns) as Campaign[];
  const found = known.find((each) => each === word);
  if (found !== undefined) return found;
  const problem = word === undefined ? 'name a campaign' : `no campaign '${word}'`;
  throw new UsageError(`${problem}: there are ${known.join(', ')} (npm run prove -- --help)`);
}

/**
 * What `--short` runs: of every store of claims the promises that rest on guard 1 most, of a ledger
 * in Spanner those that rest on guard 2 and the outbox.
 */
const shortFiles: Readonly<Record<LedgerStore, readonly string[]>> = {
  postgres: [
    'one-payment',
    'identical-at-once',
    'claims-forgotten',
    'refused-requests',
    'postgres-away',
    'the-audit-balances',
  ],
  spanner: ['one-payment', 'claims-forgotten', 'refunds', 'the-audit-balances'],
};

const notShort = 'it is not among the few that --short tries here';

/** Where a promise is the same wherever claims are kept, and why: it is tried on one store. */
const sameOnEveryClaims: Readonly<Record<string, string>> = {
  bench: 'it is about a command, and what a claim costs is measured by npm run compare',
  boot: 'each store’s own refusals are tried beside the gateway',
  'dispatcher-stands-still': 'it begins at the outbox, where no claim is seen any more',
  'events-in-order': 'it begins at the outbox, where no claim is seen any more',
  'list-while-paying': 'lists are read from the ledger',
  'poison-events': 'it begins at Pub/Sub, where no claim is seen any more',
  'poison-records': 'its records are appended to Kafka past the gateway',
  'pubsub-forgets': 'it begins at Pub/Sub, where no claim is seen any more',
  'scenario-interrupted': 'it is about a command, whatever store is there',
  watched: 'metrics have the same names whatever the store',
  'webhook-endpoint': 'a PUT that says the same again has the same effect, without a claim',
};

/** The same of the ledger. */
const sameOnEveryLedger: Readonly<Record<string, string>> = {
  bench: 'it is about a command, and what a posting costs is in docs/stores.md',
  boot: 'what a service refuses to start without is asked for before it looks at a store',
  'events-in-order': 'its outbox is one of its own, in PostgreSQL; that of Spanner has the suite',
  'scenario-interrupted': 'it is about a command, whatever store is there',
  watched: 'metrics have the same names whatever the store',
  'webhook-endpoint': 'endpoints are in PostgreSQL',
};

const notOnSpanner: Readonly<Record<string, string>> = {
  'down-and-up': 'the emulator keeps the ledger in memory, and down ends it',
};

/** A promise of e2e/ by its file's name without `.test.ts`. */
export type PromiseFile = {
  name: string;
  path: string;
  /** Why one store of claims is enough. */
  sameOnClaims?: string;
  /** Why one ledger is enough. */
  sameOnLedgers?: string;
  /** Why it is not tried on a ledger at all. */
  whyNotOn: Partial<Record<LedgerStore, string>>;
};

/**
 * The files of a campaign to run, by name; all of it when nothing is asked for.
 *
 * @throws UsageError for an unknown one.
 */
export function chooseFiles(
  campaign: Campaign,
  asked: { only: readonly string[]; short: boolean },
): PromiseFile[] {
  // Long storms come last: an emulator grows slow with what they leave behind.
  const paths = new Map(
    globSync([...campaigns[campaign]], { cwd: folder })
      .map((path) => [basename(path, '.test.ts'), `${folder}${path}`] as const)
      .sort(([one], [other]) => turnOf(one) - turnOf(other) || one.localeCompare(other)),
  );
  const isShort = campaign === 'stores' && asked.short && asked.only.length === 0;
  const { postgres, spanner } = shortFiles;
  const reasons = [sameOnEveryClaims, sameOnEveryLedger, notOnSpanner].flatMap(Object.keys);
  const listed = campaign === 'stores' ? [...postgres, ...spanner, ...reasons] : [];
  const unknown = [...asked.only, ...listed].filter((name) => !paths.has(name));
  if (unknown.length > 0) {
    const known = [...paths.keys()].join(', ');
    throw new UsageError(`${unknown.join(', ')}: no such promise; there are ${known}`);
  }
  const short = isShort ? [...postgres, ...spanner] : [...paths.keys()];
  const wanted = asked.only.length > 0 ? asked.only : short;
  return [...paths]
    .filter(([name]) => wanted.includes(name))
    .map(([name, path]) => {
      if (campaign !== 'stores') return { name, path, whyNotOn: {} };
      const leftOut = (ledger: LedgerStore) =>
        isShort && !shortFiles[ledger].includes(name) ? { [ledger]: notShort } : {};
      const cannot = notOnSpanner[name];
      return {
        ...{ name, path },
        ...reasonFor('sameOnClaims', sameOnEveryClaims[name]),
        ...reasonFor('sameOnLedgers', sameOnEveryLedger[name]),
        whyNotOn: {
          ...leftOut('postgres'),
          ...leftOut('spanner'),
          ...reasonFor('spanner', cannot),
        },
      };
    });
}

const storms = ['workers-come-and-go', 'kill-storm'];
const turnOf = (name: string) => storms.indexOf(name);

const reasonFor = <Name extends string>(name: Name, why: string | undefined) =>
  (why === undefined ? {} : { [name]: why }) as Partial<Record<Name, string>>;
