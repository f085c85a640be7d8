import { lackingEvents } from '@triplock/inspect';
import {
  createInEmulator,
  migrateSpanner,
  openSpanner,
  openSpannerOutbox,
  spannerMigrationSets,
  type SpannerAddress,
} from '@triplock/ledger-spanner';
import { OtherVersionError } from '@triplock/postgres';
import type { LedgerStore, Stores } from '../choices.ts';
import { CommandError } from '@triplock/command';
import type { Names } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import type { Report } from '../session.ts';
import { spannerDatabaseIn } from '../wiring.ts';
import { withDatabase } from './database.ts';

/**
 * Which store the home's ledger is in. A ledger does not move by itself: what was accepted is
 * in the one where it was posted.
 *
 * @throws CommandError when another is asked for.
 */
export function ledgerOf({ ledger: before }: Stores, asked: LedgerStore | undefined): LedgerStore {
  if (asked !== undefined && before !== undefined && asked !== before) {
    throw new CommandError(
      `the ledger of this home is in ${before} and does not move to ${asked}: take another --home, or forget the data (npm run down -- --volumes)`,
    );
  }
  return asked ?? before ?? 'postgres';
}

/**
 * Has the ledger's database ready before a service starts, where it is not PostgreSQL's, which has
 * it with everything else.
 *
 * @throws CommandError when the emulator ended since the last `up` and has forgotten the ledger.
 */
export async function provisionLedger(
  { state, report }: { state: Stores; report: Report },
  wanted: { store: LedgerStore; addresses: Addresses; names: Names },
): Promise<void> {
  const { store, addresses, names } = wanted;
  if (store === 'spanner') {
    const database = spannerDatabaseIn(addresses, names);
    const { made } = await createInEmulator(database);
    if (made && state.ledger === 'spanner') {
      throw new CommandError(
        'spanner: the emulator has ended since the last `up`, and the ledger in its memory is gone: forget what the other parts keep as well (npm run down -- --volumes)',
      );
    }
    const applied = await migrateSpanner(database, spannerMigrationSets).catch(refuseOtherSchema);
    if (applied.length > 0) report(`spanner: ran ${applied.length} migrations`);
    if (made) report('spanner: the emulator keeps the ledger in memory; `down` forgets it');
  }
  state.ledger = store;
}

function refuseOtherSchema(error: unknown): never {
  if (!(error instanceof OtherVersionError)) throw error;
  throw new CommandError(`spanner: ${error.message}`, { cause: error });
}

/**
 * What a new broker lacks: every event goes out again from an outbox in Spanner, under its old id.
 */
export function refillFrom(database: SpannerAddress): (report: Report) => Promise<void> {
  return async (report) => {
    const outbox = openSpannerOutbox(await openSpanner(database));
    try {
      const range = { since: new Date(0), until: new Date(), rowsMax: 100 };
      let events = 0;
      for (let more = 1; more > 0; events += more) more = await outbox.republish(range);
      if (events > 0) report(`pubsub: ${events} events that it may have forgotten go out again`);
    } finally {
      await outbox.close();
    }
  };
}

/**
 * Has what a broker forgot published again, under the same event ids. The emulator keeps messages
 * in memory alone, so those that were published and not yet received are gone with its process.
 */
export async function refillTopic(ownerUrl: string, report: Report): Promise<void> {
  const events = await withDatabase(ownerUrl, (database) => lackingEvents(database, 'wait-again'));
  if (events > 0) report(`pubsub: ${events} events it had forgotten go out again`);
}
