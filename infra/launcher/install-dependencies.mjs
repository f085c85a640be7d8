import { spawn } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Runs `npm ci` when what is installed is not what package-lock.json asks for. Compares content and
 * not times, because a checkout or a copy changes times only. Resolves to the sentence that says
 * what to do when the dependencies cannot be used.
 */
export async function installDependencies(root) {
  if (!isInstalled(root)) {
    say('installing dependencies with npm ci; the first time this takes a minute or two');
    const problem = await exclusively(root, () => (isInstalled(root) ? undefined : npmCi(root)));
    if (problem !== undefined) return problem;
  }
  if (existsSync(join(root, 'node_modules', 'node', 'bin', 'node'))) return undefined;
  return [
    'Node 24 is missing from node_modules/node: its install script did not run.',
    'Allow install scripts and fetch it: npm rebuild node --ignore-scripts=false',
  ].join(' ');
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

async function npmCi(root) {
  const npm = process.env.npm_execpath;
  const [file, ...first] = npm?.endsWith('.js') ? [process.execPath, npm] : ['npm'];
  // The pinned Node is a development dependency, so NODE_ENV=production must not leave it out.
  const args = [...first, 'ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
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
      resolve(code === 0 ? undefined : `npm ci failed (${signal ?? `exit code ${code}`})`),
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
