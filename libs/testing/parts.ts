import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { PartDeclaration, ProgramInSdk } from '@triplock/runtime';
import {
  startContainer,
  startOwn,
  testImages,
  testPubsubProject,
  type ContainerPartName,
} from './containers.ts';

/**
 * Where the real parts answer. `postgres` is the URL of a role that may create databases and roles.
 */
export type TestEndpoints = {
  redis: string;
  kafka: string;
  postgres: string;
  pubsub: string;
  pubsubProject: string;
  /** The launcher's home that they run in, or that what they lack is started in. */
  home: string;
};

const root = fileURLToPath(new URL('../../', import.meta.url));
const home = '.triplock/test';
/** Holds none of the usual parts, only what there is no container of. */
const homeBesideContainers = '.triplock/test/beside-containers';

const names = ['redis', 'kafka', 'postgres', 'pubsub'] as const satisfies ContainerPartName[];

/** What answers already, or that each part is to be started in a container when it is asked for. */
type Found = { parts: 'running'; endpoints: TestEndpoints } | { parts: 'containers' };

let found: Promise<Found> | undefined;
const containers = new Map<ContainerPartName, Promise<string>>();

/**
 * Where one of the real parts answers. They are those that `npm test` started
 * (TRIPLOCK_TEST_ENDPOINTS names their file). Else what TRIPLOCK_TEST_PARTS says: containers of
 * this process's own, each started when it is first asked for, or an instance that the launcher
 * starts on first use and that stays up for the next run (`npm run down -- --home .triplock/test`
 * ends it).
 */
export async function testPart(name: ContainerPartName): Promise<string> {
  found ??= findParts();
  const parts = await found;
  if (parts.parts === 'running') return parts.endpoints[name];
  // Testcontainers removes it when this process has ended, however it ended.
  const started = containers.get(name) ?? startContainer(name).then(({ address }) => address);
  containers.set(name, started);
  return started;
}

/** All of them at once. */
export async function testEndpoints(): Promise<TestEndpoints> {
  const [redis, kafka, postgres, pubsub] = await Promise.all(names.map(testPart));
  const parts = await found!;
  if (parts.parts === 'running') return parts.endpoints;
  const home = `${root}${homeBesideContainers}`;
  return {
    redis: redis!,
    kafka: kafka!,
    postgres: postgres!,
    pubsub: pubsub!,
    pubsubProject: testPubsubProject,
    home,
  };
}

const started = new Map<string, Promise<string>>();

/** A part that few tests need, because it is of one store. */
export type RareTestPart = {
  part: PartDeclaration;
  /** What has the launcher start it beside the others. */
  options: readonly string[];
  /** Starts it in a container of this process's own, where tests may be told to run on one. */
  startContainer?: Parameters<typeof startOwn>[0];
};

/**
 * Where such a part answers: the one that its variable gives, else a container where tests are told
 * so, else one that is started beside the other parts on first use, and ends with them.
 */
export function rareTestPart(rare: RareTestPart): Promise<string> {
  const { name } = rare.part;
  const address = started.get(name) ?? startRarePart(rare);
  started.set(name, address);
  return address;
}

async function startRarePart({
  part,
  options,
  startContainer: start,
}: RareTestPart): Promise<string> {
  const given = process.env[part.given.variable]?.trim();
  if (given) return given;
  if (start !== undefined && toldFor(part) === 'container') {
    return (await startOwn(start)).address;
  }
  const parts = await testEndpoints();
  const known = besideParts(parts)[part.name];
  // Asking is a hundred times faster than having the launcher look.
  if (known !== undefined && (await accepts(known))) return known;
  await startBeside(parts, options);
  return besideParts(parts)[part.name]!;
}

/** What tests are told that they run on, where it cannot be had everywhere. */
function toldFor({ program }: PartDeclaration): string | undefined {
  if (program.from !== 'gcloud SDK') return undefined;
  return process.env[program.testVariable]?.trim() || undefined;
}

async function findParts(): Promise<Found> {
  const given = process.env['TRIPLOCK_TEST_ENDPOINTS'];
  if (given) return { parts: 'running', endpoints: readEndpoints(given) };
  const { parts, because } = await chooseTestParts();
  const kind = parts === 'native' ? 'processes of the launcher' : 'containers';
  process.stderr.write(`tests run on ${kind}: ${because}\n`);
  if (parts === 'containers') return { parts };
  await startParts(['--home', home]);
  const stop = `npm run down -- --home ${home}`;
  process.stderr.write(`what the tests ran on stays up for the next run: ${stop}\n`);
  return { parts: 'running', endpoints: readEndpoints(`${root}${home}/endpoints.json`) };
}

/** What runs in the parts' home beside them, by its name. */
function besideParts({ home: folder }: TestEndpoints): Readonly<Record<string, string>> {
  const file = `${folder}/endpoints.json`;
  return existsSync(file) ? readEndpoints(file) : {};
}

/** Containers are nothing that the launcher could find in the home: it is given them. */
async function startBeside(parts: TestEndpoints, options: readonly string[]): Promise<void> {
  const given = {
    REDIS_URL: parts.redis,
    KAFKA_BROKERS: parts.kafka,
    DATABASE_URL: parts.postgres,
    PUBSUB_EMULATOR_HOST: parts.pubsub,
  };
  const areContainers = parts.home.endsWith(homeBesideContainers);
  await startParts(['--home', parts.home, ...options], areContainers ? given : {});
}

/** Whether something listens there. */
async function accepts(address: string): Promise<boolean> {
  const url = address.includes('://') ? address : `tcp://${address}`;
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const connected = once(socket, 'connect').then(
    () => true,
    () => false,
  );
  return connected.finally(() => socket.destroy());
}

async function startParts(
  options: readonly string[],
  given: Readonly<Record<string, string>> = {},
): Promise<void> {
  const launcher = ['infra/launcher/triplock.mjs', 'up', '--parts-only', ...options];
  const env = { ...process.env, ...given };
  const maxBuffer = 16 * 1024 * 1024;
  await promisify(execFile)(process.execPath, launcher, { cwd: root, env, maxBuffer });
}

function readEndpoints<Endpoints>(file: string): Endpoints {
  if (!existsSync(file)) throw new Error(`no endpoints at ${file}: run the tests by npm test`);
  return JSON.parse(readFileSync(file, 'utf8')) as Endpoints;
}

/** What the real parts of a test run are: processes of the launcher, or containers. */
export type TestParts = { parts: 'native' | 'containers'; because: string };

const run = promisify(execFile);
const answersWithinMs = 5_000;

/**
 * TRIPLOCK_TEST_PARTS says `native` or `containers`; without it they are containers where an engine
 * answers and has the images, and processes everywhere else.
 */
export async function chooseTestParts(): Promise<TestParts> {
  const asked = process.env['TRIPLOCK_TEST_PARTS']?.trim();
  if (asked === 'native' || asked === 'containers') {
    return { parts: asked, because: 'TRIPLOCK_TEST_PARTS asks for it' };
  }
  if (asked) throw new Error(`TRIPLOCK_TEST_PARTS takes native or containers, not '${asked}'`);
  const version = await docker('version', '--format', '{{.Server.Version}}');
  if (version === undefined) return { parts: 'native', because: 'no container engine answers' };
  const listed = await docker('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}');
  const there = new Set(listed?.split('\n'));
  const missing = Object.values(testImages).filter((image) => !there.has(image));
  return missing.length === 0
    ? { parts: 'containers', because: `Docker ${version} answers and has the images` }
    : { parts: 'native', because: `Docker ${version} has no ${missing.join(', ')}` };
}

/** What tests run on that need a part of one store; `none` where they are left out. */
export type ChosenPart = { on: 'given' | 'native' | 'container' | 'none'; because: string };

/**
 * Chooses that for a part of the gcloud SDK. Its own variable says `native`, `container` or `none`.
 * Without it one may be given; else it is the SDK's; else an engine's.
 *
 * @param file the program in this machine's SDK, where there is one.
 */
export async function chooseTestPart(
  { given, container }: PartDeclaration,
  { testVariable, only }: ProgramInSdk,
  { file, here = process.platform }: { file: string | undefined; here?: NodeJS.Platform },
): Promise<ChosenPart> {
  const asked = process.env[testVariable]?.trim();
  if (asked === 'native' || asked === 'container' || asked === 'none') {
    return { on: asked, because: `${testVariable} asks for it` };
  }
  if (asked) throw new Error(`${testVariable} takes native, container or none, not '${asked}'`);
  if (process.env[given.variable]?.trim()) {
    return { on: 'given', because: `${given.variable} gives it` };
  }
  if (file !== undefined) return { on: 'native', because: `the gcloud SDK has ${file}` };
  const lacks =
    only.platform === here
      ? 'no gcloud SDK with the emulator was found'
      : `Google ships the emulator for ${only.name} alone and this is ${here}`;
  const image = container.image?.name;
  const listed = await docker('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}');
  if (image !== undefined && listed?.split('\n').includes(image)) {
    return { on: 'container', because: `${lacks}; an engine has its image` };
  }
  const engine =
    listed === undefined ? 'no container engine answers' : `the engine has no ${image}`;
  return { on: 'none', because: `${lacks}, and ${engine}` };
}

/** What the command printed; `undefined` when there is no engine, or none that answers in time. */
async function docker(...args: string[]): Promise<string | undefined> {
  const ran = run('docker', args, { timeout: answersWithinMs });
  return ran.then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}
