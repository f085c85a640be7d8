import type { DatabaseAdminClient, InstanceAdminClient, SpannerClient } from './client-types.ts';
import { parseDatabaseName, type SpannerPlace } from './place.ts';

/**
 * After an outage gRPC tries again within 2 s; its own limit is two minutes, in which a database
 * that is back would be left alone.
 */
const reconnect = {
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

/** Opens a client of the data API. It connects when first used. */
export async function openDataApi(place: SpannerPlace): Promise<SpannerClient> {
  const { v1 } = await load();
  return initialized(new v1.SpannerClient(await optionsFor(place)));
}

/** Opens a client of the API that changes schemas. */
export async function openDatabaseAdmin(place: SpannerPlace): Promise<DatabaseAdminClient> {
  const { v1 } = await load();
  return initialized(new v1.DatabaseAdminClient(await optionsFor(place)));
}

/** Opens a client of the API that makes instances. */
export async function openInstanceAdmin(place: SpannerPlace): Promise<InstanceAdminClient> {
  const { v1 } = await load();
  return initialized(new v1.InstanceAdminClient(await optionsFor(place)));
}

/** Loaded here, because it takes most of a second that a system on PostgreSQL need not spend. */
const load = () => import('@google-cloud/spanner');

async function optionsFor({ database, emulatorHost }: SpannerPlace) {
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
    // With the domain said, the client does not look for Google's metadata server to learn it.
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
