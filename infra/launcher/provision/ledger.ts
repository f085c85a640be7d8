import { lackingEvents } from '@triplock/inspect';
import {
  isCopied,
  ledgerApart,
  ledgerStoreNamed,
  openLedgerStore,
  type LedgerSettings,
} from '@triplock/ledgers';
import { openForCommand, OtherVersionError } from '@triplock/postgres';
import type { LedgerStore, Stores } from '../choices.ts';
import { CommandError } from '@triplock/command';
import type { Names } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import type { Report } from '../session.ts';
import { ledgerStoreAt } from '../wiring.ts';
import { withDatabase } from './database.ts';

/**
 * Which store the home's ledger is in. A ledger does not move by itself: what was accepted is
 * in the one where it was posted.
 *
 * @throws CommandError when another is asked for.
 */
export function ledgerOf({ ledger: before }: Stores, asked: LedgerStore | undefined): LedgerStore {
  const kept: string | undefined = before;
  if (asked !== undefined && kept !== undefined && asked !== kept) {
    throw new CommandError(
      `the ledger of this home is in ${kept} and does not move to ${asked}: take another --home, or forget the data (npm run down -- --volumes)`,
    );
  }
  return asked ?? before ?? 'postgres';
}

/**
 * Has the ledger's database ready before a service starts, where it is not PostgreSQL's, which has
 * it with everything else.
 *
 * @throws CommandError when its server ended since the last `up` and has forgotten the ledger.
 */
export async function provisionLedger(
  { state, report }: { state: Stores; report: Report },
  wanted: { store: LedgerStore; addresses: Addresses; names: Names },
): Promise<void> {
  const { store, addresses, names } = wanted;
  const apart = ledgerApart(store);
  if (apart !== undefined) {
    const settings = ledgerStoreAt(store, addresses, names);
    const outcome = await apart.provision(settings, { mayMake: state.ledger !== store });
    if (outcome === 'gone') {
      throw new CommandError(
        `${store}: its server has ended since the last \`up\`, and the ledger in its memory is gone: forget what the other parts keep as well (npm run down -- --volumes)`,
      );
    }
    const applied = await apart.migrate(settings).catch((error) => refuseOther(store, error));
    if (applied.length > 0) report(`${store}: ran ${applied.length} migrations`);
    const { brings } = ledgerStoreNamed(store);
    if (outcome === 'made' && brings?.keeps === 'nothing') {
      report(`${store}: its server keeps the ledger in memory; \`down\` forgets it`);
    }
  }
  state.ledger = store;
}

function refuseOther(store: LedgerStore, error: unknown): never {
  if (!(error instanceof OtherVersionError)) throw error;
  throw new CommandError(`${store}: ${error.message}`, { cause: error });
}

/**
 * Has what a new broker lacks published again, under the same event ids. The emulator keeps
 * messages in memory alone, so those that were published and not yet received are gone with its
 * process. Of an outbox that is not in PostgreSQL every event goes out again: nothing is beside it
 * that knows which were received.
 */
export async function refillTopic(
  ledger: LedgerSettings,
  ownerUrl: string,
  report: Report,
): Promise<void> {
  const events = isCopied(ledger.LEDGER_STORE)
    ? await republishAll(ledger, ownerUrl)
    : await withDatabase(ownerUrl, (database) => lackingEvents(database, 'wait-again'));
  if (events > 0) report(`pubsub: ${events} events that it may have forgotten go out again`);
}

async function republishAll(ledger: LedgerSettings, ownerUrl: string): Promise<number> {
  const { outbox } = await openLedgerStore(ledger, () =>
    openForCommand({ url: ownerUrl, applicationName: 'launcher', connectionsMax: 1 }),
  );
  try {
    const range = { since: new Date(0), until: new Date(), rowsMax: 100 };
    let events = 0;
    for (let more = 1; more > 0; events += more) more = await outbox.republish(range);
    return events;
  } finally {
    await outbox.close();
  }
}
