import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Admin } from 'kafkajs';
import { missingPart } from '../errors.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Command } from '../processes/start.ts';
import type { Session } from '../session.ts';
import { classArchiveOf, jarsIn, sharedClasses } from './class-archive.ts';
import type { ClassArchive, Fetched, OwnServer, Part, Site } from './part.ts';
import pins from '../programs/pins.json' with { type: 'json' };
import {
  cached,
  compiledOnce,
  fetchJars,
  findJava,
  hasMaven,
  javaOptions,
} from '../programs/programs.ts';

const { version, checksum } = pins.kafka;

/** The log of accepted payments: one broker that is its own controller. */
export const kafka: Part = {
  name: 'kafka',
  title: 'Kafka',
  given: { variable: 'KAFKA_BROKERS', address: (value) => value },
  ports: [
    { use: 'port', usual: 19_092, variable: 'TRIPLOCK_KAFKA_PORT' },
    { use: 'controller', usual: 19_093, variable: 'TRIPLOCK_KAFKA_CONTROLLER_PORT' },
  ],
  fetch: fetchKafka,
  address: ({ ports }) => `127.0.0.1:${ports['port']}`,
  probe: probeKafka,
  recognise,
  stop: { signal: 'SIGTERM', withinMs: 20_000 },
};

async function fetchKafka(session: Session): Promise<Fetched> {
  const java = await findJava();
  if (java.outcome === 'missing') throw missingPart('kafka', java.because);
  const jars = await cached(session, { name: `kafka-${version}`, checksum }, async (filling) => {
    if (!hasMaven()) throw missingPart('kafka', 'there is no mvn on PATH to fetch it with');
    const pom = join(import.meta.dirname, 'kafka-pom.xml');
    await fetchJars(session, { name: 'kafka', title: `Kafka ${version}`, pom, folder: filling });
  });
  const name = `kafka-${version}`;
  const classArchive = classArchiveOf({ name, java, jars: jarsIn(jars) });
  return {
    picked: `Kafka ${version} (Maven, Java ${java.major})`,
    command: (site) => command(site, { java: java.file, jars, classArchive }),
    classArchive,
  };
}

type Program = { java: string; jars: string; classArchive: ClassArchive };

async function command(site: Site, program: Program): Promise<Command> {
  const { folder, session } = site;
  const properties = join(folder, 'server.properties');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(properties, kafkaProperties({ ...site, log: join(folder, 'log') }));
  const logging = pathToFileURL(join(import.meta.dirname, 'kafka-log4j2.properties')).href;
  // The tool that formats finds there what it has in common with the broker.
  const shared = sharedClasses(program.classArchive);
  const run = (options: readonly string[], main: readonly string[]): Command => ({
    file: program.java,
    args: [
      ...[...javaOptions, compiledOnce, ...shared],
      ...options,
      `-Dlog4j2.configurationFile=${logging}`,
      ...['-cp', join(program.jars, '*')],
      ...main,
      properties,
    ],
    cwd: folder,
    settings: {},
  });
  await format(session, folder, (id) =>
    // In one word, because an id may begin with a dash.
    run(['-Xmx256m'], ['kafka.tools.StorageTool', 'format', `--cluster-id=${id}`, '-c']),
  );
  return run(['-Xmx512m'], ['kafka.Kafka']);
}

/** Holds the cluster id. */
const formatted = 'formatted';

/**
 * Gives an empty log its cluster id. The mark comes last: a format that was cut off is repeated.
 */
async function format(
  session: Session,
  folder: string,
  formatting: (clusterId: string) => Command,
): Promise<void> {
  const mark = join(folder, formatted);
  if (existsSync(mark)) return;
  rmSync(join(folder, 'log'), { recursive: true, force: true });
  const clusterId = randomBytes(16).toString('base64url');
  await runTool(session, {
    name: 'format-kafka',
    doing: 'formatting the Kafka log',
    command: formatting(clusterId),
  });
  writeFileSync(mark, `${clusterId}\n`);
}

/** The broker's configuration file. */
export function kafkaProperties({ ports, log }: Pick<Site, 'ports'> & { log: string }): string {
  const broker = `127.0.0.1:${ports['port']}`;
  const controller = `127.0.0.1:${ports['controller']}`;
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@${controller}`,
    listeners: `PLAINTEXT://${broker},CONTROLLER://${controller}`,
    'advertised.listeners': `PLAINTEXT://${broker}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'log.dirs': escaped(log),
    // A misspelt topic must be an error, not a new topic with one partition.
    'auto.create.topics.enable': 'false',
    // A lone consumer need not wait for others to join it.
    'group.initial.rebalance.delay.ms': '0',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    // Of a group without members, and by default for as long as records: a group that came back
    // after its records were dropped would begin anew, and nobody would know that any are missing.
    'offsets.retention.minutes': String(90 * 24 * 60),
    // One broker with a handful of groups: fewer partitions to load at every start.
    'offsets.topic.num.partitions': '8',
    // Nobody follows the one controller, which would write down every half second that it lives.
    'metadata.max.idle.interval.ms': '30000',
    // Each thread looks for work several times a second, and there are two sets of each: a broker's
    // and a controller's. Requests are short, and a machine has few cores for so many parts.
    'num.network.threads': '2',
    'num.io.threads': '4',
    'group.coordinator.threads': '1',
  };
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

/** A backslash begins an escape in Java's properties format. */
function escaped(path: string): string {
  return path.replaceAll('\\', '\\\\');
}

// The plan's consumer group. Any group would do to ask the coordinator, but the answer is only
// about the partition of the offsets topic that this group lives in.
const group = 'ledger-worker';

/**
 * Asks for a group's offsets: a broker that listens may still answer that its group coordinator is
 * loading, and consumers would then wait for a retry.
 */
function probeKafka(brokers: string): Promise<void> {
  return withAdmin(brokers, async (admin) => {
    // kafkajs looks for the coordinator among the brokers that it has seen in metadata.
    await admin.listTopics();
    await admin.fetchOffsets({ groupId: group });
  });
}

/** A worker on another home's broker would read its payments. */
function recognise(brokers: string, { home }: OwnServer): Promise<void> {
  const own = readFileSync(join(home.data, 'kafka', formatted), 'utf8').trim();
  return withAdmin(brokers, async (admin) => {
    const { clusterId } = await admin.describeCluster();
    if (clusterId !== own) throw new Error(`cluster ${clusterId} answers instead of ${own}`);
  });
}

async function withAdmin(brokers: string, work: (admin: Admin) => Promise<void>): Promise<void> {
  const { Kafka, logLevel } = await import('kafkajs');
  const admin = new Kafka({
    clientId: 'launcher',
    brokers: brokers.split(','),
    logLevel: logLevel.NOTHING,
    connectionTimeout: 2_000,
    requestTimeout: 2_000,
    retry: { retries: 0 },
  }).admin();
  try {
    await admin.connect();
    await work(admin);
  } finally {
    await admin.disconnect();
  }
}
