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
import { showProgress } from './progress-line.mjs';

/**
 * Runs `npm ci` when what is installed is not what package-lock.json asks for. Compares content and
 * not times, because a checkout or a copy changes times only. Resolves to the sentence that says
 * what to do when the dependencies cannot be used. What npm prints is shown when it fails.
 */
export async function installDependencies(root, stream = process.stderr) {
  const isWhole = () => isInstalled(root) && (existsSync(nodeIn(root)) || serves(root, process));
  if (!isWhole()) {
    const installing = 'installing dependencies with npm ci, a minute or two the first time';
    const progress = showProgress(stream, installing);
    const install = async () => {
      // Somebody else did it meanwhile; or an install was cut off between its two steps.
      if (isWhole()) return undefined;
      progress.now(installing);
      return (isInstalled(root) ? undefined : await npmCi(root)) ?? runScripts(root, progress);
    };
    let outcome = 'the dependencies were not installed';
    let problem;
    try {
      problem = await exclusively(root, progress, install);
      if (problem === undefined) outcome = 'dependencies are installed';
    } finally {
      progress.end(outcome);
    }
    if (problem !== undefined) {
      // As if nobody had heard it, now that npm has ended and the lock is gone.
      if (problem.brokenOffBy !== undefined) process.kill(process.pid, problem.brokenOffBy);
      stream.write(problem.printed);
      return problem.why;
    }
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
function runScripts(root, progress) {
  const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const names = Object.entries(allowScripts)
    .filter(([name, allowed]) => allowed && existsSync(join(root, 'node_modules', name)))
    .map(([name]) => name)
    .filter((name) => name !== 'node' || !serves(root, process));
  if (names.length === 0) return undefined;
  progress.now(`running the install scripts of ${names.join(', ')}`);
  return npm(root, ['rebuild', ...names]);
}

/** Resolves to what went wrong, with all that npm printed: a good end is nothing to read. */
async function npm(root, words) {
  // The Node that runs npm: that of this process may be one that the install has just removed.
  const { npm_execpath: own, npm_node_execpath: node = process.execPath } = process.env;
  const [file, ...first] = own?.endsWith('.js') ? [node, own] : ['npm'];
  const args = [...first, ...words, '--loglevel=error', '--no-progress'];
  // Beside an npm that goes on alone the next command would install too.
  let brokenOffBy;
  const passOn = (signal) => {
    brokenOffBy = signal;
    child.kill(signal);
  };
  for (const signal of breakingOff) process.on(signal, passOn);
  const child = spawn(file, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes) => printed.push(bytes));
  }
  const why = await new Promise((resolve) => {
    child.on('error', (error) => resolve(`cannot run npm: ${error.message}`));
    child.on('close', (code, signal) => {
      if (code === 0) resolve(undefined);
      resolve(`npm ${words[0]} failed (${signal ?? `exit code ${code}`}); its messages are above`);
    });
  });
  for (const signal of breakingOff) process.off(signal, passOn);
  if (why === undefined && brokenOffBy === undefined) return undefined;
  return { why, brokenOffBy, printed: Buffer.concat(printed).toString() };
}

const breakingOff = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Two commands started at once on a fresh clone must not install over each other. */
async function exclusively(root, progress, work) {
  mkdirSync(join(root, '.triplock'), { recursive: true });
  const lock = join(root, '.triplock', 'install.lock');
  while (!take(lock)) {
    const owner = ownerOf(lock);
    if (isAlive(owner)) {
      progress.now(`waiting for process ${owner}, which installs dependencies`);
      await delay(500);
    } else rmSync(lock, { force: true });
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
