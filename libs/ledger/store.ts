import { readDurability, type Database, type Durability } from '@triplock/postgres';
import type { SettingsOf, SettingsTable } from '@triplock/runtime';
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

/** A kind of database that a ledger and its outbox can be kept in. */
export type LedgerStoreKind<Table extends SettingsTable> = {
  /** Settings of its own, for the table of every service that touches the ledger. */
  settings: Table;
  /** What is missing of an environment that names this store. */
  missing(environment: NodeJS.ProcessEnv): string[];
  /**
   * Opens every port over one connection, made when first used.
   *
   * @param how.callLimitMs until a single call is given up, where that is not the pool's to say.
   */
  open(
    settings: SettingsOf<Table>,
    how: { openPostgres: () => Database; callLimitMs?: number },
  ): Promise<LedgerPorts>;
  /**
   * Copies the ledger into the schema `ledger` of PostgreSQL, which the audit reads by SQL. Absent
   * where the ledger is there.
   */
  openCopy?(
    settings: SettingsOf<Table>,
    copyTo: Database,
  ): Promise<{ copy: CopyLedger; close(): Promise<void> }>;
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
export const postgresLedgerStore: LedgerStoreKind<Record<never, never>> = {
  settings: {},
  missing: () => [],
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
};
