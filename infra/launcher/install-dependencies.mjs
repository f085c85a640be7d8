import { spawn } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Runs `npm ci` when what is installed is not what package-lock.json asks for. Compares content and
 * not times, because a checkout or a copy changes times only. Resolves to the sentence that says
 * what to do when the dependencies cannot be used.
 */
export async function installDependencies(root) {
  const isWhole = () => isInstalled(root) && (existsSync(nodeIn(root)) || serves(root, process));
  if (!isWhole()) {
    say('installing dependencies with npm ci; the first time this takes a minute or two');
    const problem = await exclusively(root, async () => {
      // Somebody else did it meanwhile; or an install was cut off between its two steps.
      if (isWhole()) return undefined;
      return (isInstalled(root) ? undefined : await npmCi(root)) ?? runScripts(root);
    });
    if (problem !== undefined) return problem;
  }
  return provideNode(root);
}

/** Where every command and every target finds the Node that runs it. */
export const nodeIn = (root) => join(root, 'node_modules', 'node', 'bin', 'node');

/**
 * The Node that started this is taken when it can run the repository: the package `node` then has
 * no program of its own, but a link to it. Made anew when it leads nowhere, as after an update of
 * the machine's Node. Resolves to the sentence that says what to do when there is none.
 */
export function provideNode(root, own = process) {
  const node = nodeIn(root);
  if (existsSync(node)) return undefined;
  if (!serves(root, own)) {
    return [
      `Node ${own.versions.node} cannot run this,`,
      'and Node 24 is missing from node_modules/node: its install script did not run. Install Node 24',
      'or newer, or allow install scripts and fetch it: npm rebuild node --ignore-scripts=false',
    ].join(' ');
  }
  mkdirSync(dirname(node), { recursive: true });
  const next = `${node}.${process.pid}`;
  symlinkSync(own.execPath, next);
  // In one step: of two commands that do it at once either may be last.
  renameSync(next, node);
  return undefined;
}

/**
 * Whether a Node can run the repository: 24 is the oldest that is tested, and some Linux
 * distributions build theirs without types. One that was fetched into node_modules, which npm puts
 * first in the PATH of its scripts, goes with the next install.
 */
function serves(root, { execPath, versions, features }) {
  if (execPath.startsWith(join(root, 'node_modules', sep))) return false;
  return Number.parseInt(versions.node, 10) >= 24 && Boolean(features.typescript);
}

function isInstalled(root) {
  const wanted = packagesOf(join(root, 'package-lock.json'));
  const installed = packagesOf(join(root, 'node_modules', '.package-lock.json'));
  if (wanted === undefined || installed === undefined) return false;
  // Optional packages are binaries for other machines, and are rightly absent here.
  return Object.entries(wanted)
    .filter(([path, entry]) => path.includes('node_modules/') && !entry.optional)
    .every(([path, entry]) => {
      const here = installed[path];
      return here !== undefined && here.version === entry.version && here.link === entry.link;
    });
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    // Absent, or cut off by an interrupted install: either way it describes nothing installed.
    return undefined;
  }
}

function npmCi(root) {
  // The pinned Node is a development dependency, so NODE_ENV=production must not leave it out.
  return npm(root, ['ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund']);
}

/**
 * Those that package.json allows. That of `node` fetches 60 MB, which nobody needs whose own Node
 * will do. Where npm is told to run none, PostgreSQL is used from a copy (parts/postgres.ts).
 */
function runScripts(root) {
  const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const names = Object.entries(allowScripts)
    .filter(([name, allowed]) => allowed && existsSync(join(root, 'node_modules', name)))
    .map(([name]) => name)
    .filter((name) => name !== 'node' || !serves(root, process));
  return names.length === 0 ? undefined : npm(root, ['rebuild', ...names]);
}

async function npm(root, words) {
  // The Node that runs npm: that of this process may be one that the install has just removed.
  const { npm_execpath: own, npm_node_execpath: node = process.execPath } = process.env;
  const [file, ...first] = own?.endsWith('.js') ? [node, own] : ['npm'];
  const args = [...first, ...words, '--loglevel=error'];
  // Its words go to stderr: the stdout of a command with --json holds its result and nothing else.
  const child = spawn(file, args, { cwd: root, stdio: ['ignore', 2, 2] });
  const startedMs = Date.now();
  const progress = setInterval(
    () => say(`still installing (${Math.round((Date.now() - startedMs) / 1000)} s)`),
    5_000,
  );
  const problem = await new Promise((resolve) => {
    child.on('error', (error) => resolve(`cannot run npm: ${error.message}`));
    child.on('exit', (code, signal) =>
      resolve(code === 0 ? undefined : `npm ${words[0]} failed (${signal ?? `exit code ${code}`})`),
    );
  });
  clearInterval(progress);
  return problem && `${problem}; its messages are above`;
}

/** Two commands started at once on a fresh clone must not install over each other. */
async function exclusively(root, work) {
  mkdirSync(join(root, '.triplock'), { recursive: true });
  const lock = join(root, '.triplock', 'install.lock');
  while (!take(lock)) {
    if (isAlive(ownerOf(lock))) await delay(500);
    else rmSync(lock, { force: true });
  }
  try {
    return await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

/** Linking a file that is already written, so that nobody reads a lock without its owner in it. */
function take(lock) {
  const mine = `${lock}.${process.pid}`;
  writeFileSync(mine, String(process.pid));
  try {
    linkSync(mine, lock);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(mine);
  }
}

function ownerOf(lock) {
  try {
    return Number(readFileSync(lock, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function isAlive(pid) {
  if (pid === undefined) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function say(line) {
  process.stderr.write(`triplock: ${line}\n`);
}
