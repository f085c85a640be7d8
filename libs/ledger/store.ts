import { readDurability, type Database, type Durability } from '@triplock/postgres';
import type { PartDeclaration, SettingsOf, SettingsTable } from '@triplock/runtime';
import type { Continuity } from './continuity.ts';
import type { Ledger } from './ledger.ts';
import type { Outbox } from './outbox.ts';
import { openPostgresContinuity } from './postgres/continuity.ts';
import { openAnnouncer, openPostgresOutbox } from './postgres/outbox.ts';
import { openPostgresLedger } from './postgres/payments.ts';
import { openPostgresFollowUps } from './postgres/follow-ups.ts';
import { openPostgresRecovery } from './postgres/recovery.ts';
import { takeDueFrom, wakeDueIn } from './postgres/transactions.ts';
import type { FollowUps } from './follow-ups.ts';
import type { Recovery } from './recovery.ts';
import type { TakeDue, WakeDue } from './unfinished.ts';

/** Every port of one ledger, over one connection: closing the ledger or the outbox closes it. */
export type LedgerPorts = {
  ledger: Ledger;
  followUps: FollowUps;
  outbox: Outbox;
  takeDue: TakeDue;
  wakeDue: WakeDue;
  /**
   * How lasting a commit is that was acknowledged. Absent where every one is.
   *
   * @throws PostgresDurabilityError when a crash of the server may lose it.
   */
  readDurability?: () => Promise<Durability>;
  /** Whether it has all that was told. Absent where what was committed stays. */
  continuity?: Continuity;
  /** Absent where nothing is taken over after the ledger was set back. */
  recovery?: Recovery;
};

/** Where the servers of one system answer, by their names; whatever else is known of the system. */
export type LedgerServers = { readonly [part: string]: unknown };

/** How a ledger is opened, besides its own settings. */
export type LedgerOptions = {
  /** For a store that is in the services' own database. */
  openPostgres: () => Database;
  /** Until a single call is given up, where that is not the pool's to say. */
  callLimitMs?: number;
  /** Transactions at once, instead of what its settings say; a pool has its own bound. */
  transactionsMax?: number;
};

/**
 * A store of a ledger and its outbox as the rest of the house knows it: whoever opens, copies,
 * migrates or provisions one takes it from the list (libs/stores/ledgers) and knows none by name.
 */
export type LedgerStore<Own extends SettingsTable = SettingsTable> = {
  /** In a person's words. */
  title: string;
  /** The servers that it consists of. */
  parts: readonly string[];
  /** The one of them that it brings along, where that is none of the usual ones. */
  brings?: PartDeclaration;
  /** Its own settings; none is required by itself, because another store may be named. */
  settings: Own;
  /** Which of them it cannot do without, and what to give. */
  needs: readonly (keyof Own & string)[];
  advice: Readonly<Partial<Record<keyof Own & string, string>>>;
  /**
   * Its settings where its servers are these, all its parts among them.
   *
   * @param database what the system calls its database.
   */
  settingsAt(servers: LedgerServers, database: string): Readonly<Record<string, string>>;
  /** Rows that a worker posts in one commit, where the servers above bear fewer than usual. */
  postRowsMax?: number;
  /** Opens every port over one connection, made when first used. */
  open(settings: SettingsOf<Own>, options: LedgerOptions): Promise<LedgerPorts>;
  /** What it has beside the services' own database; absent where it is in that one. */
  apart?: LedgerApart<Own>;
  /** What it cannot do, each in a sentence that ends in where that can be done. */
  cannot: {
    /** Give a pending transaction that was set aside back to the workers. */
    givePendingBack?: string;
  };
};

/** A ledger in a database of its own, which nobody makes, migrates or reads with the services'. */
export type LedgerApart<Own extends SettingsTable = SettingsTable> = {
  /**
   * Has the database at a server that stands for the store; idempotent.
   *
   * @param how.mayMake whether one that is not there is made, empty; otherwise it is `gone`.
   */
  provision(
    settings: SettingsOf<Own>,
    how: { mayMake: boolean },
  ): Promise<'made' | 'there' | 'gone'>;
  /**
   * Brings its schema up to the newest migration and gives what was run; idempotent.
   *
   * @throws OtherVersionError when it is of another version; nothing is touched.
   */
  migrate(settings: SettingsOf<Own>): Promise<{ owner: string; file: string }[]>;
  /** Where it is, for an error that may be read by anybody. */
  addressIn(settings: SettingsOf<Own>): string;
  /** Copies it into the schema `ledger` of PostgreSQL, which the audit reads by SQL. */
  openCopy(
    settings: SettingsOf<Own>,
    copyTo: Database,
  ): Promise<{ copy: CopyLedger; close(): Promise<void> }>;
  /** Reaches it past the services; connects when it is first asked. */
  inspect(settings: SettingsOf<Own>): Promise<LedgerInspector>;
};

/** A live lease of a bucket of the outbox, and the instance that has it. */
export type LedgerLease = { bucket: number; owner: string; epoch: bigint };

/** A ledger past the services: proofs look at it, and do to it what time and losses do. */
export type LedgerInspector = {
  /** Which of these transactions it has. */
  has(txnIds: readonly string[]): Promise<string[]>;
  /** Live leases, by its own clock. */
  leases(): Promise<LedgerLease[]>;
  /** Has a pending transaction looked after now, as the time does. */
  makeDue(txnId: string): Promise<void>;
  /**
   * Remembers every row. What it returns puts the ledger back to that, as a restore does: nothing
   * that came since is there.
   */
  remember(): Promise<() => Promise<void>>;
  close(): Promise<void>;
};

/** What was copied now, and whether more follows because it was enough. */
export type Copied = { transactions: number; events: number; moreFollows: boolean };

/** Brings a copy of the ledger up to now. */
export type CopyLedger = (how: {
  /** Whether rows are counted, too, which reads whole tables: what was deleted changes no row. */
  counting: boolean;
  /** As many slices are enough; without it the copy is as of one moment afterwards. */
  slicesMax?: number;
}) => Promise<Copied>;

/** The ledger in PostgreSQL, as a list of ledger stores names it. */
export const postgresLedgerStore = {
  title: 'PostgreSQL',
  parts: ['postgres'],
  settings: {},
  needs: [],
  advice: {},
  settingsAt: () => ({}),
  cannot: {},
  open: async (_, { openPostgres }) => {
    const database = openPostgres();
    const announced = openAnnouncer(database);
    const ledger = openPostgresLedger(database);
    const refunds = openPostgresFollowUps(database);
    return {
      ledger: {
        ...ledger,
        post: announced(ledger.post),
        awaitCustomer: announced(ledger.awaitCustomer),
        authorize: announced(ledger.authorize),
        settle: announced(ledger.settle),
        noteDispute: announced(ledger.noteDispute),
        recordKeyConflict: announced(ledger.recordKeyConflict),
      },
      followUps: {
        ...refunds,
        post: announced(refunds.post),
        settle: announced(refunds.settle),
        recordKeyConflict: announced(refunds.recordKeyConflict),
      },
      outbox: openPostgresOutbox(database),
      takeDue: takeDueFrom(database),
      wakeDue: wakeDueIn(database),
      readDurability: () => readDurability(database),
      continuity: openPostgresContinuity(database),
      recovery: openPostgresRecovery(database),
    };
  },
} as const satisfies LedgerStore<Record<never, never>>;
