import type { Endpoints } from '@triplock/launcher';
import { copyLedgerFrom, openSpanner, type SpannerDatabase } from '@triplock/ledger-spanner';
import { openForCommand, type Queryable } from '@triplock/postgres';
import { shareReads } from '@triplock/runtime';

/** The ledger's tables by SQL, as they are when they are asked. */
export type LedgerNow = Queryable & {
  /** Where the ledger is in Spanner: its own database, for what is not copied. */
  spanner(): Promise<SpannerDatabase>;
  close(): Promise<void>;
};

type LedgerAddress = Pick<Endpoints, 'ledger' | 'spanner' | 'spannerDatabase' | 'databases'>;

/** The emulator does one thing at a time, and who looks is not to take it from the services. */
const apartMs = 250;

/**
 * Reads the ledger through `database`. Of a ledger in Spanner that has a copy, which the auditor
 * brings up to now every other second: whoever looks between a crash and what follows it cannot
 * wait for that, so the copy is brought up to now before each look.
 */
export function openLedgerNow(address: LedgerAddress, database: Queryable): LedgerNow {
  let opened: Promise<SpannerDatabase> | undefined;
  const spanner = () => (opened ??= openOf(address));
  if (address.ledger === 'postgres') {
    return { query: (sql, values) => database.query(sql, values), spanner, close: async () => {} };
  }
  const copyTo = openForCommand({
    url: address.databases.ledger,
    applicationName: 'ledger now',
    connectionsMax: 1,
  });
  const copy = async () =>
    void (await copyLedgerFrom(await spanner(), copyTo)({ counting: false }));
  const bringUpToNow = shareReads(copy, { apartMs });
  return {
    query: async (sql, values) => {
      await bringUpToNow();
      return database.query(sql, values);
    },
    spanner,
    close: async () => {
      const database = await opened?.catch(() => undefined);
      await Promise.all([database?.close(), copyTo.close()]);
    },
  };
}

async function openOf({ spannerDatabase, spanner }: LedgerAddress): Promise<SpannerDatabase> {
  if (spannerDatabase === undefined) throw new Error('this ledger is not kept in Spanner');
  return openSpanner({ database: spannerDatabase, emulatorHost: spanner });
}
