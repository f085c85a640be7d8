import {
  createInEmulator,
  migrateSpanner,
  openSpanner,
  openSpannerOutbox,
  OtherSchemaError,
  spannerMigrationSets,
  type SpannerPlace,
} from '@triplock/ledger-spanner';
import { LauncherError } from '../launcher-error.ts';
import { spannerPlace, type LedgerStore } from '../ledger-store.ts';
import type { Names } from '../names.ts';
import type { Addresses } from '../parts/start-parts.ts';
import type { Report } from '../session.ts';
import type { State } from '../state.ts';

/**
 * Which store the home's ledger is in. A book does not move by itself: what was accepted is in the
 * one where it was posted.
 *
 * @throws LauncherError when another is asked for.
 */
export function ledgerOf(
  { state }: { state: Pick<State, 'ledger' | 'claims'> },
  asked: LedgerStore | undefined,
): LedgerStore {
  const before = state.ledger;
  if (asked !== undefined && before !== undefined && asked !== before) {
    throw new LauncherError(
      `the ledger of this home is in ${before} and does not move to ${asked}: take another --home, or forget the data (npm run down -- --volumes)`,
    );
  }
  return asked ?? before ?? 'postgres';
}

/**
 * Has the ledger's database ready before a service starts, where it is not PostgreSQL's, which has
 * it with everything else.
 *
 * @throws LauncherError when the emulator ended since the last `up` and has forgotten the book.
 */
export async function provisionLedger(
  { state, report }: { state: Pick<State, 'ledger'>; report: Report },
  wanted: { store: LedgerStore; addresses: Addresses; names: Names },
): Promise<void> {
  const { store, addresses, names } = wanted;
  if (store === 'spanner') {
    const place = spannerPlace(addresses, names);
    const { made } = await createInEmulator(place);
    if (made && state.ledger === 'spanner') {
      throw new LauncherError(
        'spanner: the emulator has ended since the last `up`, and the ledger in its memory is gone: forget what the other parts keep as well (npm run down -- --volumes)',
      );
    }
    const applied = await migrateSpanner(place, spannerMigrationSets).catch(refuseOtherSchema);
    if (applied.length > 0) report(`spanner: ran ${applied.length} migrations`);
    if (made) report('spanner: the emulator keeps the ledger in memory; `down` forgets it');
  }
  state.ledger = store;
}

function refuseOtherSchema(error: unknown): never {
  if (!(error instanceof OtherSchemaError)) throw error;
  throw new LauncherError(`spanner: ${error.message} (npm run down -- --volumes)`, {
    cause: error,
  });
}

/**
 * What a new broker lacks: every event goes out again from an outbox in Spanner, under its old id.
 */
export function refillFrom(place: SpannerPlace): (report: Report) => Promise<void> {
  return async (report) => {
    const outbox = openSpannerOutbox(await openSpanner(place));
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
