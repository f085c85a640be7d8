import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type ClaimStore,
  claimStores,
  type LedgerStore,
  parseLedgerStore,
} from '@triplock/launcher';
import { UsageError } from '@triplock/command';
import { ledgerStoreNamed, ledgerStoreNames } from '@triplock/ledgers';

const folder = fileURLToPath(new URL('../', import.meta.url));

/**
 * A campaign's files, from e2e/: what `npm test` runs too, also of providers, long faults, guards
 * taken away, and what begins with a system of an earlier commit.
 */
const campaigns = {
  stores: ['*.test.ts', 'faults/*.test.ts', '../libs/providers/*/e2e/*.test.ts'],
  faults: ['faults/*.test.ts'],
  restore: ['restore/*.test.ts'],
  sabotage: ['sabotage/*.test.ts'],
  upgrade: ['upgrade/*.test.ts'],
} as const;

export type Campaign = keyof typeof campaigns;

/** Campaigns that run no files of e2e/ on a system of their own. */
type Other = 'generators' | 'clients' | 'two-at-once' | 'claims-servers' | 'gate' | 'check';

/** Every campaign by its name, those too that are not files of e2e/, and what it proves. */
export const campaignLines = {
  stores: 'the promises end to end on every claim store and on every ledger',
  faults: 'processes killed under load, workers that come and go, every scenario',
  restore: 'a restore in the middle of a storm, and what partners were told stays true',
  generators: 'what npm run rename and npm run new write, each in a scratch clone',
  'two-at-once': 'two whole systems that start at once on this machine, again and again',
  sabotage: 'each guard taken away: duplicates escape, so the tests can be believed',
  upgrade: 'a system of an earlier commit, replaced by this one under load',
  'claims-servers': 'what is kept in Redis, on every line of Redis and Valkey',
  clients: 'clients that eight generators make of the API pay; whatever it allows is taken',
  gate: 'every test over and over, in other orders, beside other work',
  check: 'judges a history that a run has written, by itself: prove -- check FILE',
} as const satisfies Record<Campaign | Other, string>;

/** The campaigns, a line each. */
export function listCampaigns(): string[] {
  return Object.entries(campaignLines).map(([name, line]) => `  ${name.padEnd(14)} ${line}`);
}

/** The argument after `prove --`.  @throws UsageError that names the campaigns there are. */
export function chooseCampaign(word: string | undefined): Campaign {
  const found = (Object.keys(campaigns) as Campaign[]).find((each) => each === word);
  if (found !== undefined) return found;
  const problem = word === undefined ? 'a campaign is missing' : `there is no campaign '${word}'`;
  throw new UsageError([`${problem}; there are:`, ...listCampaigns()].join('\n'));
}

/** The seed after `--seed`, or another one each time.  @throws UsageError for no whole number. */
export function chooseSeed(word: string | undefined): number {
  if (word === undefined) return Date.now() % 1_000_000;
  if (/^\d{1,9}$/.test(word)) return Number(word);
  throw new UsageError(`a seed is a whole number of 9 digits at most, not '${word}'`);
}

/**
 * What `--short` runs: of every store of claims the promises that rest on guard 1 most, of a ledger
 * in another store than usual those that rest on guard 2 and the outbox.
 */
const shortFiles = {
  usual: [
    'one-payment',
    'identical-at-once',
    'claims-forgotten',
    'refused-requests',
    'postgres-away',
    'the-audit-balances',
  ],
  others: ['one-payment', 'claims-forgotten', 'refunds', 'the-audit-balances'],
} as const satisfies Record<string, readonly string[]>;

/** The store that a ledger is in unless somebody chooses, and the others. */
export const [usualLedger, ...otherLedgers] = ledgerStoreNames;
const shortOn = (ledger: LedgerStore): readonly string[] =>
  ledger === usualLedger ? shortFiles.usual : shortFiles.others;

const notShort = 'it is not among the few that --short tries here';

/** Where a promise is the same wherever claims are kept, and why: it is tried on one store. */
const sameOnEveryClaims: Readonly<Record<string, string>> = {
  commands: 'it is about commands, and what a claim costs is measured by npm run compare',
  'dispatcher-stands-still': 'it begins at the outbox, where no claim is seen any more',
  'every-currency': 'a claim holds what a read shows, and each other layer is behind it',
  'list-while-paying': 'lists are read from the ledger',
  'poison-events': 'it begins at Pub/Sub, where no claim is seen any more',
  'partners-page': 'it is about what partners write, and each promise behind it has its own file',
  'poison-records': 'its records are appended to Kafka past the gateway',
  'pubsub-forgets': 'it begins at Pub/Sub, where no claim is seen any more',
  watched: 'metrics have the same names whatever the store',
  'webhook-endpoint': 'a PUT that says the same again has the same effect, without a claim',
};

/** The same of the ledger. */
const sameOnEveryLedger: Readonly<Record<string, string>> = {
  commands: 'it is about commands, and what a posting costs is in docs/stores.md',
  'partners-page': 'it is about what partners write, and each promise behind it has its own file',
  watched: 'metrics have the same names whatever the store',
  'webhook-endpoint': 'endpoints are in PostgreSQL',
};

/** Where it cannot be tried on a ledger whose server keeps nothing. */
const notInMemory: Readonly<Record<string, string>> = {
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
      .map((path) => [basename(path, '.test.ts'), join(folder, path)] as const)
      .sort(([one], [other]) => turnOf(one) - turnOf(other) || one.localeCompare(other)),
  );
  const isShort = campaign === 'stores' && asked.short && asked.only.length === 0;
  const allShort: readonly string[] = Object.values(shortFiles).flat();
  const reasons = [sameOnEveryClaims, sameOnEveryLedger, notInMemory].flatMap(Object.keys);
  const listed = campaign === 'stores' ? [...allShort, ...reasons] : [];
  const unknown = [...asked.only, ...listed].filter((name) => !paths.has(name));
  if (unknown.length > 0) {
    const known = [...paths.keys()].join(', ');
    throw new UsageError(`${unknown.join(', ')}: no such promise; there are ${known}`);
  }
  const short = isShort ? allShort : [...paths.keys()];
  const wanted = asked.only.length > 0 ? asked.only : short;
  return [...paths]
    .filter(([name]) => wanted.includes(name))
    .map(([name, path]) => {
      if (campaign !== 'stores') return { name, path, whyNotOn: {} };
      const whyNot = (ledger: LedgerStore) => {
        const cannot = keepsNothing(ledger) ? notInMemory[name] : undefined;
        return cannot ?? (isShort && !shortOn(ledger).includes(name) ? notShort : undefined);
      };
      return {
        name,
        path,
        ...reasonFor('sameOnClaims', sameOnEveryClaims[name]),
        ...reasonFor('sameOnLedgers', sameOnEveryLedger[name]),
        whyNotOn: Object.assign(
          {},
          ...ledgerStoreNames.map((ledger) => reasonFor(ledger, whyNot(ledger))),
        ) as PromiseFile['whyNotOn'],
      };
    });
}

const keepsNothing = (ledger: LedgerStore) => ledgerStoreNamed(ledger).brings?.keeps === 'nothing';

const storms = ['workers-come-and-go', 'kill-storm'];
const turnOf = (name: string) => storms.indexOf(name);

const reasonFor = <Name extends string>(name: Name, why: string | undefined) =>
  (why === undefined ? {} : { [name]: why }) as Partial<Record<Name, string>>;

/** The stores of one system that promises are tried on. */
export type Column = { claims: ClaimStore; ledger: LedgerStore };

/** What a column is called: by what is not the rule in it. */
export function columnName({ claims, ledger }: { claims: string; ledger: string }): string {
  return ledger === usualLedger ? claims : `${claims}, ledger in ${ledger}`;
}

/** The stores to ask for of those that nobody has by himself, another one by each number. */
export function oneOfTheOthers(number: number): Pick<AskedStores, 'only' | 'ledger'> {
  const [, ...otherClaims] = claimStores;
  const others = [
    ...otherClaims.map((only) => ({ only, ledger: undefined })),
    ...otherLedgers.map((ledger) => ({ only: undefined, ledger })),
  ];
  return others[number % others.length]!;
}

/** What was asked about the stores. */
type AskedStores = {
  /** Stores of claims and files, by commas. */
  only: string | undefined;
  ledger: string | undefined;
  /** Every store of claims with every ledger. */
  full: boolean;
};

/**
 * The systems to try, and the words of `--only` that name no store of claims. Where nothing is
 * said, `stores` tries every store of claims with a ledger in the usual store, and the first one
 * with one in each other, too: a claim and a ledger know nothing of each other.
 *
 * @throws UsageError for an unknown ledger.
 */
export function chooseColumns(
  campaign: Campaign,
  { only, ledger, full }: AskedStores,
): { columns: readonly Column[]; rest: string[] } {
  const words = (only ?? '').split(',').map((word) => word.trim());
  const named = claimStores.filter((store) => words.includes(store));
  const rest = words.filter((word) => word !== '' && !claimStores.some((each) => each === word));
  const asked = parseLedgerStore(ledger);
  const [first] = claimStores;
  const usual: readonly ClaimStore[] = campaign === 'stores' ? claimStores : [first];
  const stores = named.length > 0 ? named : usual;
  const on = (store: LedgerStore, some: readonly ClaimStore[]) =>
    some.map((claims): Column => ({ claims, ledger: store }));
  const inUsual = on(usualLedger, stores);
  const inOther = (store: LedgerStore) =>
    on(store, full || named.length > 0 ? stores : stores.slice(0, 1));
  if (asked === usualLedger) return { columns: inUsual, rest };
  if (asked !== undefined) return { columns: inOther(asked), rest };
  if (campaign !== 'stores' && !full) return { columns: inUsual, rest };
  const others = otherLedgers.map(inOther).flatMap((each) => (full ? each : each.slice(0, 1)));
  return { columns: [...inUsual, ...others], rest };
}

/** What is tried on a system, and what is not and why. */
export type PlannedColumn = {
  column: Column;
  promises: readonly { file: PromiseFile; whyNot?: string }[];
};

/** Leaves out what does not apply to a system, or was tried on another where it is the same. */
export function planProof(
  columns: readonly Column[],
  files: readonly PromiseFile[],
): PlannedColumn[] {
  const triedOn = new Map<string, Column[]>(files.map(({ name }) => [name, []]));
  return columns.map((column) => ({
    column,
    promises: files.map((file) => {
      const tried = triedOn.get(file.name)!;
      const whyNot = file.whyNotOn[column.ledger] ?? whySame(file, column, tried);
      if (whyNot !== undefined) return { file, whyNot };
      tried.push(column);
      return { file };
    }),
  }));
}

/**
 * Why a promise is the same on a system where it was tried; nothing where it has to be tried here.
 */
function whySame(
  { sameOnClaims, sameOnLedgers }: PromiseFile,
  { claims, ledger }: Column,
  tried: readonly Column[],
): string | undefined {
  const same = tried.find(
    (other) =>
      (other.claims === claims || sameOnClaims !== undefined) &&
      (other.ledger === ledger || sameOnLedgers !== undefined),
  );
  if (same === undefined) return undefined;
  return same.claims === claims ? sameOnLedgers : sameOnClaims;
}
