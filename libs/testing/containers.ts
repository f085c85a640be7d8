import { randomBytes } from 'node:crypto';
import type { StartedTestContainer } from 'testcontainers';
import { freePort } from './isolation.ts';

/** A part in a container of this process's own. */
export type ContainerPart = {
  address: string;
  /** Removes it at once. Without it, it goes 10 s after the process ended, however it ended. */
  stop(): Promise<void>;
};

/** The parts that there are containers of. */
export type ContainerPartName = keyof typeof testImages;

/** The project that is named to the emulator, which takes any. */
export const testPubsubProject = 'triplock';

// Long for a machine with two cores that runs other tests meanwhile.
const startWithinMs = 180_000;

const starters: Record<ContainerPartName, () => Promise<Running>> = {
  redis,
  kafka,
  postgres,
  pubsub,
};

/** A container that answers there. */
export type Running = { container: StartedTestContainer; address: string };

/** Starts a part in a container; resolves when it answers. */
export async function startContainer(name: ContainerPartName): Promise<ContainerPart> {
  return startOwn(starters[name]);
}

/**
 * The same of what a store brings along.
 *
 * @param start is given how long the container may take, and resolves when it answers.
 */
export async function startOwn(
  start: (withinMs: number) => Promise<Running>,
): Promise<ContainerPart> {
  findPortsOnThisMachine();
  const { container, address } = await start(startWithinMs);
  return { address, stop: async () => void (await container.stop()) };
}

/**
 * An engine on a socket publishes ports on this machine. Inside of a container Testcontainers takes
 * the bridge's address for it, where a port is not to be had from everywhere.
 */
function findPortsOnThisMachine(): void {
  if (/^(unix:|$)/.test(process.env['DOCKER_HOST'] ?? '')) {
    process.env['TESTCONTAINERS_HOST_OVERRIDE'] ??= '127.0.0.1';
  }
}

async function redis(): Promise<Running> {
  const { RedisContainer } = await import('@testcontainers/redis');
  const container = await new RedisContainer(testImages.redis)
    .withStartupTimeout(startWithinMs)
    .start();
  return { container, address: container.getConnectionUrl() };
}

/** A Redis of one test's own, on a port that it keeps when it is killed and started again. */
export async function startRedisContainer(
  args: readonly string[],
): Promise<ContainerPart & { id: string }> {
  findPortsOnThisMachine();
  const { GenericContainer, Wait } = await import('testcontainers');
  const port = await freePort();
  const container = await new GenericContainer(testImages.redis)
    .withExposedPorts({ container: 6379, host: port })
    .withCommand(['redis-server', '--protected-mode', 'no', ...args])
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
    .withStartupTimeout(startWithinMs)
    .start();
  return {
    id: container.getId(),
    address: `redis://127.0.0.1:${port}`,
    stop: async () => void (await container.stop()),
  };
}

async function postgres(): Promise<Running> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  const container = await new PostgreSqlContainer(testImages.postgres)
    .withUsername('postgres')
    .withPassword(randomBytes(24).toString('base64url'))
    .withDatabase('postgres')
    // A pool of each test that runs beside others.
    .withCommand(['postgres', '-c', 'max_connections=200', '-c', 'timezone=UTC'])
    .withStartupTimeout(startWithinMs)
    .start();
  return { container, address: container.getConnectionUri() };
}

async function pubsub(): Promise<Running> {
  const { PubSubEmulatorContainer } = await import('@testcontainers/gcloud');
  const container = await new PubSubEmulatorContainer(testImages.pubsub)
    .withProjectId(testPubsubProject)
    .withStartupTimeout(startWithinMs)
    .start();
  return { container, address: container.getEmulatorEndpoint() };
}

/** The port is chosen first, because a broker tells its clients where it is. */
async function kafka(): Promise<Running> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const port = await freePort();
  const container = await new GenericContainer(testImages.kafka)
    .withExposedPorts({ container: 9092, host: port })
    .withEnvironment({
      KAFKA_HEAP_OPTS: '-Xmx512m',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_NODE_ID: '1',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
      KAFKA_LISTENERS: 'HOST://:9092,CONTROLLER://localhost:9093',
      KAFKA_ADVERTISED_LISTENERS: `HOST://127.0.0.1:${port}`,
      KAFKA_INTER_BROKER_LISTENER_NAME: 'HOST',
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'HOST:PLAINTEXT,CONTROLLER:PLAINTEXT',
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: '1',
      KAFKA_OFFSETS_RETENTION_MINUTES: '129600',
      KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS: '8',
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .withStartupTimeout(startWithinMs)
    .start();
  return { container, address: `${container.getHost()}:${port}` };
}

/** The images of the parts in tests, the same as docker-compose.yml or the Dockerfile has. */
export const testImages = {
  redis: 'redis:8.2.3-alpine',
  kafka: 'apache/kafka:4.3.1',
  postgres: 'postgres:18.4-alpine',
  pubsub: 'gcr.io/google.com/cloudsdktool/google-cloud-cli:528.0.0-emulators',
} as const;
