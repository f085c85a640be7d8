// What is installed on this machine. In plain JavaScript that any Node from 20 on can run, because
// it is asked before anything is fetched, and again by the parts themselves.
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';

/** Kafka 4 needs Java 17 (its release notes); the Pub/Sub emulator is content with less. */
export const oldestJava = 17;

/** Where Homebrew puts what is not on PATH by itself, on arm64 and on x64. */
const homebrews = ['/opt/homebrew', '/usr/local'];

/** Where programs are that PATH need not name. */
export const usualPlaces = {
  java: homebrews.flatMap((prefix) =>
    ['openjdk@17', 'openjdk'].map((name) => join(prefix, 'opt', name, 'bin', 'java')),
  ),
  gcloud: [
    '/usr/lib/google-cloud-sdk',
    '/usr/share/google-cloud-sdk',
    '/opt/google-cloud-sdk',
    '/snap/google-cloud-cli/current',
    ...homebrews.map((prefix) => join(prefix, 'share', 'google-cloud-sdk')),
    join(homedir(), 'google-cloud-sdk'),
  ],
};

/** The absolute path of a program on PATH. */
export function findOnPath(program, environment = process.env) {
  return (environment['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** What the program says of itself, or `undefined` when it does not run here. */
export async function askVersion(file, ...words) {
  try {
    const { stdout, stderr } = await promisify(execFile)(file, words, { timeout: 30_000 });
    return `${stdout}${stderr}`.trim();
  } catch {
    // Built for another machine, or a stand-in that only tells where to download it.
    return undefined;
  }
}

/** A Java that is new enough, from JAVA_HOME, PATH or where Homebrew puts it; asked each time. */
export async function lookForJava(environment = process.env, places = usualPlaces.java) {
  const home = environment['JAVA_HOME'];
  const named = [home && join(home, 'bin', 'java'), findOnPath('java', environment)];
  const wrong = [];
  for (const file of [...named.filter(Boolean), ...places.filter(isExecutable)]) {
    const words = await askVersion(file, '-version');
    const major = Number(/version "(?:1\.)?(\d+)/.exec(words ?? '')?.[1]);
    if (major >= oldestJava) return { outcome: 'found', file, major, version: words };
    wrong.push(Number.isNaN(major) ? `${file} does not run` : `${file} is Java ${major}`);
  }
  return { outcome: 'missing', because: wrong.join(' and ') || 'there is no java on PATH' };
}

/** Where a path exists within the SDK that `gcloud` belongs to, or within one in a usual place. */
export function inGcloudSdk(path, environment = process.env, places = usualPlaces.gcloud) {
  const gcloud = findOnPath('gcloud', environment);
  const roots = [
    environment['CLOUDSDK_ROOT'],
    gcloud && dirname(dirname(realpathSync(gcloud))),
    ...places,
  ];
  return roots.flatMap((root) => (root ? [join(root, path)] : [])).filter(existsSync);
}

/** The jar of the Pub/Sub emulator in the gcloud SDK. */
export function findPubsubEmulator(environment = process.env, places = usualPlaces.gcloud) {
  return inGcloudSdk(join('platform', 'pubsub-emulator', 'lib'), environment, places)
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .find((file) => /cloud-pubsub-emulator-.+-all\.jar$/.test(file));
}

/** Where fetched programs are kept for all clones of a user (XDG Base Directory Specification). */
export function usualPartsCache(environment = process.env, platform = process.platform) {
  const given = environment['XDG_CACHE_HOME'] ?? '';
  const usual = platform === 'darwin' ? ['Library', 'Caches'] : ['.cache'];
  return join(isAbsolute(given) ? given : join(homedir(), ...usual), 'triplock');
}

/** The folder of an entry there. Half of the checksum's digits tell any two contents apart. */
export function cacheFolderOf({ name, checksum }) {
  return checksum === undefined ? name : `${name}-${checksum.slice(0, 32)}`;
}

/** How k6 is had where there is none, in one sentence. */
export function waysToK6(version) {
  return [
    'k6 is neither on PATH nor an image of an engine, and there is no Go on PATH to build it with:',
    'install k6 1.0 or newer (https://grafana.com/docs/k6/latest/set-up/install-k6/; macOS: brew',
    'install k6), or Go 1.24 or newer (https://go.dev/doc/install; macOS: brew install go), by which',
    `it is built once, or run docker pull grafana/k6:${version}`,
  ].join(' ');
}
