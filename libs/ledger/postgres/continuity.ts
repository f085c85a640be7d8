import { loadStatements, type Database } from '@triplock/postgres';
import type { ArchivedUntil, Continuity, ContinuityState } from '../continuity.ts';

const sql = loadStatements(import.meta.url, 'continuity.sql', [
  'look',
  'countLacking',
  'noteWhole',
  'noteSetBack',
]);

type LookRow = { server: string; state: ContinuityState; archived: Record<string, string> };

/** Whether a ledger in PostgreSQL has all that was told, as the role `triplock_ledger`. */
export function openPostgresContinuity(database: Database): Continuity {
  return {
    look: async () => {
      const [row] = await database.query<LookRow>(sql.look);
      const { server, state, archived } = row!;
      const offsets = Object.entries(archived);
      const until = offsets.map(([partition, next]) => [Number(partition), BigInt(next)] as const);
      return { server, state, archivedUntil: new Map(until) };
    },
    countLacking: async (texts) => {
      const events = texts.flatMap((text) => eventOf(String(text)));
      const [row] = await database.query<{ lacking: number }>(sql.countLacking, [
        events.map(({ id }) => id),
        events.map(({ text }) => text),
      ]);
      return row!.lacking;
    },
    noteWhole: async (server, until) => {
      const noted = await database.query(sql.noteWhole, [server, archivedText(until)]);
      return noted.length > 0;
    },
    noteSetBack: async (server) => void (await database.query(sql.noteSetBack, [server])),
  };
}

/** As `ledger.continuity` has offsets: as texts, for JSON has no integers of 64 bits everywhere. */
export function archivedText(until: ArchivedUntil): string {
  return JSON.stringify(Object.fromEntries([...until].map(([each, next]) => [each, String(next)])));
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What is no event of ours was told to nobody as one. */
function eventOf(text: string): { id: string; text: string }[] {
  let id: unknown;
  try {
    id = (JSON.parse(text) as { event_id?: unknown } | null)?.event_id;
  } catch {
    return [];
  }
  return typeof id === 'string' && uuid.test(id) ? [{ id, text }] : [];
}
