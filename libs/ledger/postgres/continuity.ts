import {
  deriveKeyConflictId,
  type AcceptedFollowUp,
  type AcceptedPayment,
} from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import type { Continuity, ContinuityState } from '../continuity.ts';

const sql = loadStatements(import.meta.url, 'continuity.sql', [
  'look',
  'countLacking',
  'publishAgain',
  'findUnposted',
  'noteWhole',
  'notePosted',
  'doubt',
  'noteSetBack',
]);

type OffsetTexts = Record<string, string>;
type LookRow = {
  server: string;
  state: ContinuityState;
  archived: OffsetTexts;
  posted: OffsetTexts;
};

/** Whether a ledger in PostgreSQL has all that was told; roles but the worker’s may only look. */
export function openPostgresContinuity(database: Database): Continuity {
  return {
    look: async () => {
      const [row] = await database.query<LookRow>(sql.look);
      if (row === undefined)
        throw new Error('ledger.continuity has lost its row, which `npm run rewind` makes anew');
      const { server, state, archived, posted } = row;
      return { server, state, until: { archived: offsetsOf(archived), posted: offsetsOf(posted) } };
    },
    countLacking: async (texts) => {
      const events = texts.flatMap((text) => eventOf(String(text)));
      const [row] = await database.query<{ lacking: number }>(sql.countLacking, [
        events.map(({ id }) => id),
        events.map(({ text }) => text),
      ]);
      return row!.lacking;
    },
    publishAgain: async (texts) => {
      const ids = texts.flatMap((text) => eventOf(String(text)).map(({ id }) => id));
      await database.query(sql.publishAgain, [ids]);
    },
    findUnposted: (requests) => findUnposted(database, requests),
    noteWhole: async ({ server, until }, { archived, posted }) => {
      const offsets = [offsetsText(archived), posted === undefined ? null : offsetsText(posted)];
      const parameters = [server, ...offsets, offsetsText(until.archived)];
      return (await database.query(sql.noteWhole, parameters)).length > 0;
    },
    notePosted: async (server, posted) =>
      (await database.query(sql.notePosted, [server, offsetsText(posted)])).length > 0,
    doubt: async (server) => void (await database.query(sql.doubt, [server])),
    noteSetBack: async (server) => void (await database.query(sql.noteSetBack, [server])),
  };
}

async function findUnposted<Request extends AcceptedPayment | AcceptedFollowUp>(
  database: Database,
  requests: readonly Request[],
): Promise<Request[]> {
  const rows = await database.query<{ nth: number }>(sql.findUnposted, [
    requests.map(({ txnId }) => txnId),
    requests.map(({ fingerprint }) => fingerprint),
    requests.map(({ txnId, fingerprint }) => deriveKeyConflictId(txnId, fingerprint)),
  ]);
  return rows.map(({ nth }) => requests[nth - 1]!);
}

/** As `ledger.continuity` has offsets: as texts, for JSON has no integers of 64 bits everywhere. */
export function offsetsText(next: ReadonlyMap<number, bigint>): string {
  return JSON.stringify(Object.fromEntries([...next].map(([each, at]) => [each, String(at)])));
}

function offsetsOf(texts: OffsetTexts): Map<number, bigint> {
  return new Map(Object.entries(texts).map(([each, at]) => [Number(each), BigInt(at)]));
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
