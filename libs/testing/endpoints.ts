import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Where the real parts answer. `postgres` is the URL of a role that may create databases and roles. */
export type TestEndpoints = {
  redis: string;
  kafka: string;
  postgres: string;
  pubsub: string;
  pubsubProject: string;
  /** The launcher's home that they run in. */
  home: string;
};

const root = fileURLToPath(new URL('../../', import.meta.url));
const home = '.triplock/test';

let started: Promise<TestEndpoints> | undefined;

/**
 * The real Redis, Kafka, PostgreSQL and Pub/Sub for tests: those that `npm test` started
 * (TRIPLOCK_TEST_ENDPOINTS names their file), else an instance of its own that the launcher starts
 * on first use and that stays up for the next run (`npm run down -- --home .triplock/test` ends it).
 */
export function testEndpoints(): Promise<TestEndpoints> {
  started ??= findEndpoints();
  return started;
}

let dynamodbStarted: Promise<string> | undefined;

/**
 * The URL of a DynamoDB Local, which few tests need: it is started beside the other parts on first
 * use, and ends with them.
 */
export function testDynamodb(): Promise<string> {
  dynamodbStarted ??= testEndpoints().then(({ home }) => startDynamodb(home));
  return dynamodbStarted;
}

let spannerStarted: Promise<string> | undefined;

/**
 * `host:port` of a Spanner emulator, which few tests need: the one that SPANNER_EMULATOR_HOST gives,
 * else one that is started beside the other parts on first use, and ends with them.
 */
export function testSpanner(): Promise<string> {
  const given = process.env['SPANNER_EMULATOR_HOST']?.trim();
  spannerStarted ??= given
    ? Promise.resolve(given)
    : testEndpoints().then(({ home }) => startSpanner(home));
  return spannerStarted;
}

async function findEndpoints(): Promise<TestEndpoints> {
  const given = process.env['TRIPLOCK_TEST_ENDPOINTS'];
  if (given) return readEndpoints<TestEndpoints>(given);
  await startParts('--home', home);
  return readEndpoints<TestEndpoints>(`${root}${home}/endpoints.json`);
}

async function startDynamodb(partsHome: string): Promise<string> {
  const file = `${partsHome}/endpoints.json`;
  const { dynamodb: known } = readEndpoints<{ dynamodb?: string }>(file);
  // Asking is a hundred times faster than having the launcher look.
  if (known !== undefined && (await answers(known))) return known;
  await startParts('--home', partsHome, '--claims', 'dynamodb');
  return readEndpoints<{ dynamodb: string }>(file).dynamodb;
}

async function startSpanner(partsHome: string): Promise<string> {
  const file = `${partsHome}/endpoints.json`;
  const { spanner: known } = readEndpoints<{ spanner?: string }>(file);
  if (known !== undefined && (await accepts(known))) return known;
  await startParts('--home', partsHome, '--ledger', 'spanner');
  return readEndpoints<{ spanner: string }>(file).spanner;
}

/** Whether something listens there. */
async function accepts(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  const connected = once(socket, 'connect').then(
    () => true,
    () => false,
  );
  return connected.finally(() => socket.destroy());
}

async function answers(url: string): Promise<boolean> {
  const asked = fetch(url, { signal: AbortSignal.timeout(2_000) });
  return asked.then(
    (response) => response.status === 400,
    () => false,
  );
}

async function startParts(...options: string[]): Promise<void> {
  const launcher = ['infra/triplock.mjs', 'up', '--parts-only', ...options];
  await promisify(execFile)(process.execPath, launcher, { cwd: root, maxBuffer: 16 * 1024 * 1024 });
}

function readEndpoints<Endpoints>(file: string): Endpoints {
  if (!existsSync(file)) throw new Error(`no endpoints at ${file}: run the tests by npm test`);
  return JSON.parse(readFileSync(file, 'utf8')) as Endpoints;
}
