import type { SpannerClient } from './client-types.ts';
import { encodeLookup, type Lookup } from './lookup.ts';
import { encodeParams, type Params, type WireResult } from './values.ts';

/** Which transaction a statement or a lookup belongs to. */
export type Selector =
  | { begin: { readWrite: object } }
  | { id: Uint8Array }
  | { singleUse: { readOnly: { strong: true } } }
  | { begin: { readOnly: { strong: true; returnReadTimestamp: true } } };

/** A result, and the transaction that it began. */
export type CallResult = WireResult & {
  metadata?: {
    transaction?: {
      id?: Uint8Array | string | null;
      readTimestamp?: { seconds?: unknown; nanos?: number | null } | null;
    } | null;
  } | null;
};

/** The few calls that everything here is made of; each is tried once and ends in time. */
export type Calls = {
  createSession(): Promise<string>;
  deleteSession(name: string): Promise<void>;
  execute(request: {
    session: string;
    transaction: Selector;
    sql: string;
    params: Params;
    seqno: number;
  }): Promise<CallResult>;
  read(request: { session: string; transaction: Selector; lookup: Lookup }): Promise<CallResult>;
  begin(session: string): Promise<Uint8Array>;
  commit(request: {
    session: string;
    transactionId: Uint8Array;
    mutations: object[];
  }): Promise<void>;
  rollback(request: { session: string; transactionId: Uint8Array }): Promise<void>;
  close(): Promise<void>;
};

/** The calls of one database. */
export function callsOf(
  client: SpannerClient,
  to: { database: string; role?: string | undefined; callLimitMs: number },
): Calls {
  const { database, role: creatorRole, callLimitMs } = to;
  // Tried again here and not by the client, which would not say so.
  const once = { timeout: callLimitMs, retry: null };
  return {
    createSession: async () => {
      const session = creatorRole === undefined ? {} : { creatorRole };
      const [{ name }] = await client.createSession({ database, session }, once);
      return name!;
    },
    deleteSession: async (name) => void (await client.deleteSession({ name }, once)),
    execute: async ({ session, transaction, sql, params, seqno }) => {
      const request = { session, transaction, sql, seqno, ...encodeParams(params) };
      const [result] = await client.executeSql(request as object, once);
      return result;
    },
    read: async ({ session, transaction, lookup }) => {
      const request = { session, transaction, ...encodeLookup(lookup) };
      const [result] = await client.read(request, once);
      return result;
    },
    begin: async (session) => {
      const options = { readWrite: {} };
      const [{ id }] = await client.beginTransaction({ session, options }, once);
      return id as Uint8Array;
    },
    commit: async (request) => void (await client.commit(request, once)),
    rollback: async (request) => void (await client.rollback(request, once)),
    close: () => client.close(),
  };
}
