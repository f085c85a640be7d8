import type { v1 } from '@google-cloud/spanner';
import { encodeLookup, encodeParams, type Lookup, type Params, type WireResult } from './values.ts';

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

/**
 * After an outage gRPC tries again within 2 s; its own limit is two minutes, in which a database
 * that is back would be left alone.
 */
const reconnect = {
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

/** Opens a client of the data API. It connects when first used. */
export async function openDataApi(address: SpannerAddress): Promise<SpannerClient> {
  const { v1 } = await load();
  return initialized(new v1.SpannerClient(await optionsFor(address)));
}

/** Opens a client of the API that changes schemas. */
export async function openDatabaseAdmin(address: SpannerAddress): Promise<DatabaseAdminClient> {
  const { v1 } = await load();
  return initialized(new v1.DatabaseAdminClient(await optionsFor(address)));
}

/** Opens a client of the API that makes instances. */
export async function openInstanceAdmin(address: SpannerAddress): Promise<InstanceAdminClient> {
  const { v1 } = await load();
  return initialized(new v1.InstanceAdminClient(await optionsFor(address)));
}

/** Loaded here, because it takes most of a second that a system on PostgreSQL need not spend. */
const load = () => import('@google-cloud/spanner');

async function optionsFor({ database, emulatorHost }: SpannerAddress) {
  const { project } = parseDatabaseName(database);
  if (emulatorHost === undefined) return { projectId: project, ...reconnect };
  const { credentials } = await import('@grpc/grpc-js');
  const [, host, port] = /^(.+):(\d+)$/.exec(emulatorHost) ?? [];
  if (host === undefined) throw new Error(`'${emulatorHost}' is not of the form host:port`);
  return {
    projectId: project,
    servicePath: host,
    port: Number(port),
    sslCreds: credentials.createInsecure(),
    // With the domain given, the client does not look for Google's metadata server to learn it.
    universeDomain: 'googleapis.com',
    ...reconnect,
  };
}

/** Credentials are looked for here, and not in the first call, before its time-out begins. */
async function initialized<Client extends { initialize(): Promise<unknown> }>(
  client: Client,
): Promise<Client> {
  await client.initialize();
  return client;
}

/** A database of Cloud Spanner. */
export type SpannerAddress = {
  /** `projects/…/instances/…/databases/…` */
  database: string;
  /** `host:port` of the emulator; absent for Cloud Spanner, whose credentials the client finds. */
  emulatorHost?: string | undefined;
};

/** The parts of a database's name. */
export type DatabaseName = { project: string; instance: string; database: string };

const form = /^projects\/([^/]+)\/instances\/([^/]+)\/databases\/([^/]+)$/;

/** @throws Error when it is no database's full name. */
export function parseDatabaseName(name: string): DatabaseName {
  const [, project, instance, database] = form.exec(name) ?? [];
  if (project === undefined || instance === undefined || database === undefined) {
    throw new Error(`'${name}' is not of the form projects/…/instances/…/databases/…`);
  }
  return { project, instance, database };
}

export type SpannerClient = InstanceType<typeof v1.SpannerClient>;
export type DatabaseAdminClient = InstanceType<typeof v1.DatabaseAdminClient>;
export type InstanceAdminClient = InstanceType<typeof v1.InstanceAdminClient>;
