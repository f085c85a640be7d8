import type { LedgerApart, LedgerInspector, LedgerPorts } from '@triplock/ledger';
import type { Database } from '@triplock/postgres';
import { copyLedgerFrom } from './copy/copy-ledger.ts';
import { openSpannerFollowUps } from './follow-ups.ts';
import { inspectSpanner } from './inspector.ts';
import { openSpannerOutbox } from './outbox.ts';
import { openSpannerLedger } from './payments.ts';
import type { SpannerAddress } from './spanner/calls.ts';
import { openSpanner, type SpannerOptions } from './spanner/database.ts';
import {
  createInEmulator,
  type EmulatorAddress,
  isInEmulator,
  migrateSpanner,
  spannerMigrationSets,
} from './spanner/schema.ts';
import { takeDueFromSpanner, wakeDueInSpanner } from './unfinished.ts';

/** Every port of the ledger, over one connection. */
export async function openPorts(options: SpannerOptions): Promise<LedgerPorts> {
  const database = await openSpanner(options);
  return {
    ledger: openSpannerLedger(database),
    followUps: openSpannerFollowUps(database),
    outbox: openSpannerOutbox(database),
    takeDue: takeDueFromSpanner(database),
    wakeDue: wakeDueInSpanner(database),
  };
}

/** Has the database in the emulator: see {@link LedgerApart}. */
export async function provision(
  address: EmulatorAddress,
  { mayMake }: { mayMake: boolean },
): Promise<'made' | 'there' | 'gone'> {
  if (!mayMake) return (await isInEmulator(address)) ? 'there' : 'gone';
  return (await createInEmulator(address)).made ? 'made' : 'there';
}

/** Brings the schema up to the newest migration. */
export function migrate(address: SpannerAddress): ReturnType<LedgerApart['migrate']> {
  return migrateSpanner(address, spannerMigrationSets);
}

/** Copies the ledger into PostgreSQL. */
export async function openCopy(
  options: SpannerOptions,
  copyTo: Database,
): ReturnType<LedgerApart['openCopy']> {
  const spanner = await openSpanner(options);
  return { copy: copyLedgerFrom(spanner, copyTo), close: () => spanner.close() };
}

/** Reaches the ledger past the services. */
export function inspect(options: SpannerOptions): LedgerInspector {
  return inspectSpanner(() => openSpanner(options));
}
