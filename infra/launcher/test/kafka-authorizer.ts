import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { eventually, freePort, testNamespace, type Cleanup } from '@triplock/testing';
import type { KafkaOperation } from '@triplock/runtime';
import { type AclEntry, Kafka, logLevel, type SASLOptions } from 'kafkajs';
import { createHome } from '../home.ts';
import { kafka } from '../parts/kafka.ts';
import { resourceOf, type KafkaRight } from '../broker-rights.ts';
import { openSession } from '../session.ts';

/** A real broker of one test's own that does nothing for anybody without a right. */
export type KafkaWithAuthorizer = {
  /** For the test itself: without TLS, as the super user. */
  brokers: string;
  superUser: Kafka;
  /** The settings by which a service is one of the users, over TLS. */
  settingsAs(user: string): Readonly<Record<string, string>>;
  /** A client that is one of the users. */
  clientAs(
    user: string,
    wish?: { mechanism?: 'scram-sha-512' | 'plain'; password?: string },
  ): Kafka;
  /** What the broker has refused to a user, each once, as `OPERATION Topic:LITERAL:name`. */
  refusedTo(user: string): string[];
  /** The rights that a user had and used: those of an operation that it asked for. */
  usedBy(user: string): string[];
};

/** Rights as {@link KafkaWithAuthorizer} says that they were used, as the broker writes them. */
export function asUsed(rights: readonly KafkaRight[]): string[] {
  const names = rights.flatMap((right) => {
    const { type, name, pattern } = resourceOf(right);
    const operations = right.may.map((each) => each.replace(/\B(?=[A-Z])/g, '_'));
    return operations.map((each) => `${`${each} ${type} ${pattern}`.toUpperCase()} ${name}`);
  });
  return names.sort();
}

/** The rights in Kafka for `Admin.createAcls`. */
export function aclsOf(user: string, rights: readonly KafkaRight[]): AclEntry[] {
  return rights.flatMap((right) => {
    const { type, name, pattern } = resourceOf(right);
    return right.may.map((operation): AclEntry => ({
      resourceType: codes[type],
      resourceName: name,
      resourcePatternType: codes[pattern],
      principal: `User:${user}`,
      host: '*',
      operation: codes[operation],
      permissionType: codes.allow,
    }));
  });
}

// Kafka's own numbers (its enums AclOperation, ResourceType, PatternType and AclPermissionType):
// kafkajs exports its enums in a form that a module cannot import by name.
const codes = {
  Read: 3,
  Write: 4,
  Delete: 6,
  Describe: 8,
  DescribeConfigs: 10,
  topic: 2,
  group: 3,
  literal: 3,
  prefixed: 4,
  allow: 3,
} as const satisfies Record<KafkaOperation, number> & Record<string, number>;

/** Starts a broker that knows these users, by SCRAM and by PLAIN, and gives each its rights. */
export async function createKafkaWithAuthorizer(
  test: Cleanup,
  rights: Readonly<Record<string, readonly KafkaRight[]>>,
): Promise<KafkaWithAuthorizer> {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-kafka-'));
  let stop = () => Promise.resolve();
  // One hook: they run in order of registration, and the broker writes here until it is gone.
  test.after(async () => {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const passwords = new Map(Object.keys(rights).map((user) => [user, testNamespace('password')]));
  const [port, controller, secure] = [await freePort(), await freePort(), await freePort()];
  const broker = await startBroker(folder, { ports: { port, controller, secure }, passwords });
  stop = broker.stop;
  const brokers = `127.0.0.1:${port}`;
  const superUser = new Kafka({ clientId: 'test', brokers: [brokers], logLevel: logLevel.NOTHING });
  const admin = superUser.admin();
  await eventually(() => admin.connect().then(() => true), {
    withinMs: 240_000,
    what: 'the broker',
  });
  const acl = Object.entries(rights).flatMap(([user, some]) => aclsOf(user, some));
  await admin.createAcls({ acl });
  await admin.disconnect();

  const authority = join(folder, 'authority.pem');
  const passwordOf = (user: string) => passwords.get(user)!;
  const decided = (user: string, outcome: 'Allowed' | 'Denied') =>
    broker.decisions.filter((each) => each.user === user && each.outcome === outcome);
  return {
    brokers,
    superUser,
    settingsAs: (user) => ({
      KAFKA_BROKERS: `127.0.0.1:${secure}`,
      KAFKA_TLS: 'on',
      KAFKA_USERNAME: user,
      KAFKA_PASSWORD: passwordOf(user),
      NODE_EXTRA_CA_CERTS: authority,
    }),
    clientAs: (username, { mechanism = 'scram-sha-512', password = passwordOf(username) } = {}) =>
      new Kafka({
        clientId: `test-${username}`,
        brokers: [`127.0.0.1:${secure}`],
        ssl: { ca: [readFileSync(authority)] },
        sasl: { mechanism, username, password } as SASLOptions,
        retry: { retries: 3, initialRetryTime: 100 },
        logLevel: logLevel.NOTHING,
      }),
    refusedTo: (user) => distinct(decided(user, 'Denied').map(({ asked }) => asked)),
    usedBy: (user) => distinct(decided(user, 'Allowed').flatMap(({ by }) => by ?? [])),
  };
}

type Decision = {
  user: string;
  outcome: string;
  /** The operation and the resource. */
  asked: string;
  /** The ACL that allowed it, unless it only implies the operation (Read implies Describe). */
  by?: string;
};

/** What the authorizer writes down of each request (StandardAuthorizerData.buildAuditMessage). */
const decision =
  /Principal = User:(\S+) is (Allowed|Denied) operation = (\w+) .* on resource = (\S+) .*? based on rule (.*)$/;
const rule =
  /resourceType=(\w+), resourceName=([^,]+), patternType=(\w+), .* operation=(\w+), permissionType=ALLOW/;

function decisionOf(line: string): Decision | undefined {
  const [, user, outcome, operation, resource, because] = decision.exec(line) ?? [];
  if (user === undefined || outcome === undefined) return undefined;
  const [, type, name, pattern, of] = rule.exec(because!) ?? [];
  const asked = `${operation} ${resource}`;
  return {
    user,
    outcome,
    asked,
    ...(of === operation && { by: `${of} ${type} ${pattern} ${name}` }),
  };
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

type Ports = Readonly<Record<'port' | 'controller' | 'secure', number>>;

/** Runs the launcher's own broker with a second listener, users and an authorizer. */
async function startBroker(
  folder: string,
  { ports, passwords }: { ports: Ports; passwords: ReadonlyMap<string, string> },
): Promise<{ decisions: Decision[]; stop: () => Promise<void> }> {
  const { signal } = new AbortController();
  const session = openSession(createHome(folder), { report: () => undefined, signal });
  const site = { session, folder: join(folder, 'kafka'), ports };
  mkdirSync(site.folder, { recursive: true });
  // It is formatted below, with the users: the mark says that there is nothing to do.
  writeFileSync(join(site.folder, 'formatted'), 'below');
  const { file: java, args } = await (await kafka.fetch(session)).command(site);
  // It ends with Kafka's main class and the file of properties that this wrote; before them is what
  // Java itself is given, and its tool that formats is given the same.
  const properties = args.at(-1)!;
  await makeCertificate(dirname(realpathSync(java)), folder);
  appendFileSync(properties, moreProperties(folder, ports, passwords));
  const logging = join(folder, 'log4j2.properties');
  writeFileSync(logging, loggingOf());
  const run = [...args.slice(0, -2), `-Dlog4j2.configurationFile=file:${logging}`];
  const users = [...passwords].flatMap(([user, password]) => [
    '--add-scram',
    `SCRAM-SHA-512=[name=${user},password=${password}]`,
  ]);
  const format = ['format', '--cluster-id=AAAAAAAAAAAAAAAAAAAAAQ', '-c', properties, ...users];
  await promisify(execFile)(java, [...run, 'kafka.tools.StorageTool', ...format]);

  const broker = spawn(java, [...run, 'kafka.Kafka', properties], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stop = async () => {
    if (broker.exitCode !== null) return;
    const gone = once(broker, 'exit');
    broker.kill('SIGKILL');
    await gone;
  };
  const decisions: Decision[] = [];
  createInterface(broker.stdout).on('line', (line) =>
    decisions.push(...[decisionOf(line) ?? []].flat()),
  );
  return { decisions, stop };
}

/** Of two properties of one name the second counts. */
function moreProperties(
  folder: string,
  { port, controller, secure }: Ports,
  passwords: ReadonlyMap<string, string>,
): string {
  const listeners = `PLAINTEXT://127.0.0.1:${port},SASL_SSL://127.0.0.1:${secure}`;
  const module = 'org.apache.kafka.common.security';
  const users = [...passwords].map(([user, password]) => `user_${user}="${password}"`).join(' ');
  const properties = {
    listeners: `${listeners},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': listeners,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL',
    'sasl.enabled.mechanisms': 'SCRAM-SHA-512,PLAIN',
    'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': `${module}.scram.ScramLoginModule required;`,
    'listener.name.sasl_ssl.plain.sasl.jaas.config': `${module}.plain.PlainLoginModule required ${users};`,
    'ssl.keystore.type': 'PKCS12',
    'ssl.keystore.location': join(folder, 'broker.p12'),
    'ssl.keystore.password': keystorePassword,
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    // Who has not logged in, which only the listener without TLS lets happen: the test itself.
    'super.users': 'User:ANONYMOUS',
  };
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

/** The launcher's, and every decision of the authorizer. */
function loggingOf(): string {
  const usual = join(import.meta.dirname, '../parts/kafka-log4j2.properties');
  return `${readFileSync(usual, 'utf8')}
logger.decisions.name = kafka.authorizer.logger
logger.decisions.level = debug
`;
}

const keystorePassword = 'of-a-test';

/** A certificate of the broker's address by Java's own tool, which every Java has. */
async function makeCertificate(bin: string, folder: string): Promise<void> {
  const keytool = join(bin, 'keytool');
  const store = ['-storetype', 'PKCS12', '-keystore', join(folder, 'broker.p12')];
  const at = [...store, '-storepass', keystorePassword, '-alias', 'broker'];
  const named = ['-dname', 'CN=broker', '-ext', 'san=ip:127.0.0.1', '-validity', '2'];
  await promisify(execFile)(keytool, ['-genkeypair', '-keyalg', 'EC', ...named, ...at]);
  const file = ['-rfc', '-file', join(folder, 'authority.pem')];
  await promisify(execFile)(keytool, ['-exportcert', ...file, ...at]);
  assert.match(readFileSync(join(folder, 'authority.pem'), 'utf8'), /BEGIN CERTIFICATE/);
}
