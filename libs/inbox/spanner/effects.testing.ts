import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  commitTimestamp,
  migrateSpanner,
  type SpannerDatabase,
  type SpannerPlace,
  type SpannerTransaction,
} from '@triplock/spanner';
import type { Effect } from '../inbox.ts';

/** A consumer's own table. Its keys are drawn, so that an effect done twice leaves two rows. */
const effectsDdl = `
CREATE TABLE IF NOT EXISTS effects (
  id STRING(36) NOT NULL,
  event_id STRING(36) NOT NULL,
  sequence INT64,
  written_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (id)`;

/**
 * Has the table there and empty, in a database that a test of this process may have used before.
 */
export async function makeEffects(place: SpannerPlace, database: SpannerDatabase): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'effects-'));
  try {
    await writeFile(join(folder, '0001-effects.sql'), effectsDdl);
    await migrateSpanner(place, [{ owner: 'effects', folder: pathToFileURL(`${folder}/`) }]);
  } finally {
    await rm(folder, { recursive: true });
  }
  await database.transaction(async (tx) => tx.write({ kind: 'deleteAll', table: 'effects' }));
}

/** Writes a row for each event. */
export const writeEffects: Effect<SpannerTransaction> = async (tx, events) => {
  for (const { event_id, sequence } of events) {
    const row = { id: randomUUID(), event_id, sequence, written_at: commitTimestamp };
    tx.write({ kind: 'insert', table: 'effects', row });
  }
};

/** The rows, in the order in which they were committed. */
export async function readEffects(
  database: SpannerDatabase,
): Promise<{ eventId: string; sequence: number | null }[]> {
  const rows = await database.query<{ eventId: string; sequence: bigint | null }>(
    'SELECT event_id AS eventId, sequence FROM effects ORDER BY written_at',
  );
  return rows.map(({ eventId, sequence }) => ({
    eventId,
    sequence: sequence === null ? null : Number(sequence),
  }));
}
