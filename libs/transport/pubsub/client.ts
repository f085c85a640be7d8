import type { v1 } from '@google-cloud/pubsub';

/** Cloud Pub/Sub of a project, or an emulator at `host:port`. */
export type PubSubConnection = { projectId: string; emulatorHost?: string | undefined };

/**
 * After an outage gRPC tries again within 2 s; its own limit is two minutes, in which a broker that
 * is back would be left alone.
 */
const reconnect = {
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

type ClientOptions = ConstructorParameters<typeof v1.PublisherClient>[0];

/**
 * Google's client, which is loaded by who talks to Pub/Sub alone: it is a quarter of a second of
 * everything else that starts.
 */
const load = () => import('@google-cloud/pubsub');

/** Opens a client of the publisher's API. It connects when first used. */
export async function openPublisherApi(connection: PubSubConnection): Promise<v1.PublisherClient> {
  const { v1 } = await load();
  return initialized(new v1.PublisherClient(await clientOptions(connection)));
}

/** Opens a client of the subscriber's API. It connects when first used. */
export async function openSubscriberApi(
  connection: PubSubConnection,
): Promise<v1.SubscriberClient> {
  const { v1 } = await load();
  return initialized(new v1.SubscriberClient(await clientOptions(connection)));
}

/** For one try that ends in time: the callers of this library try again by themselves. */
export function onceWithin(limitMs: number) {
  return { timeout: limitMs, retry: null };
}

/** The gRPC status of an error (grpc.github.io/grpc/core/md_doc_statuscodes.html). */
export function statusOf(error: unknown): number | undefined {
  return (error as { code?: number }).code;
}
export const status = { invalidArgument: 3, deadlineExceeded: 4, unimplemented: 12 } as const;

/** Credentials are looked for here, and not in the first call, before its time-out begins. */
async function initialized<Client extends { initialize(): Promise<unknown> }>(
  client: Client,
): Promise<Client> {
  await client.initialize();
  return client;
}

async function clientOptions({ projectId, emulatorHost }: PubSubConnection) {
  const emulator = emulatorHost ? emulatorAt(emulatorHost) : {};
  const { PubSub } = await load();
  const config = await new PubSub({ projectId, ...emulator, ...reconnect }).getClientConfig();
  // The same options under two types: one also knows ports as text, which are never given here.
  return config as ClientOptions;
}

function emulatorAt(host: string) {
  // With the domain given, the client does not look for Google's metadata server to learn it.
  const clientOptions = { universeDomain: 'googleapis.com' };
  return { apiEndpoint: host, emulatorMode: true, clientOptions };
}

/** A client that is made when first needed and made anew after its connection hung. */
export type KeptClient<Client> = {
  get(): Promise<Client>;
  /** The next `get` makes another: TCP alone would notice a dead connection after minutes. */
  forget(client: Client): Promise<void>;
  close(): Promise<void>;
};

type Kept<Client> = { made: Promise<Client>; client?: Client };

/** Keeps one client of a kind at a time. */
export function keepClient<Client extends { close(): Promise<void> }>(
  make: () => Promise<Client>,
): KeptClient<Client> {
  let current: Kept<Client> | undefined;
  return {
    get: () => {
      if (current === undefined) {
        const next: Kept<Client> = { made: make() };
        current = next;
        next.made.then(
          (client) => (next.client = client),
          // Whoever asked gets the error; the next one asks anew.
          () => {
            if (current === next) current = undefined;
          },
        );
      }
      return current.made;
    },
    // Before anything is waited for: a call on a client that closes is never answered, and its
    // library leaves a rejection that nobody handles.
    forget: async (client) => {
      if (current?.client === client) current = undefined;
      await client.close();
    },
    close: async () => {
      const kept = await current?.made.catch(() => undefined);
      await kept?.close();
    },
  };
}
