import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { runTool } from '../processes/run-tool.ts';
import { openSession, type Session } from '../session.ts';
import { askVersion, cached, findOnPath } from './programs.ts';

/** That of docker-compose.yml. */
const image = 'prom/prometheus:v3.5.0';
/** The same release as a Go module, which counts its majors otherwise. */
const module = 'github.com/prometheus/prometheus';
const moduleVersion = 'v0.305.0';

/** How promtool is called here: what stands before its own words. */
export type Promtool = {
  from: 'PATH' | 'image' | 'Debian package' | 'built';
  /** The command that runs it on the files of this folder. */
  command(folder: string): { file: string; args: string[] };
};

/** Finding it, or why there is none: each way that was tried with what it lacked. */
export type FoundPromtool =
  { outcome: 'found'; promtool: Promtool } | { outcome: 'missing'; why: readonly string[] };

/**
 * Finds promtool: on PATH, in an image that an engine has, in Debian's package, which is fetched in
 * seconds and needs no root, or built by Go, which takes minutes. What is fetched or built stays in
 * the cache.
 */
export async function findPromtool(
  listening: Pick<Session, 'report' | 'signal'>,
): Promise<FoundPromtool> {
  const why: string[] = [];
  for (const way of [onPath, inEngine, fromDebian, builtByGo]) {
    const found = await way(listening);
    if (typeof found !== 'string') return { outcome: 'found', promtool: found };
    why.push(found);
  }
  return { outcome: 'missing', why };
}

type Way = (listening: Pick<Session, 'report' | 'signal'>) => Promise<Promtool | string>;

const onPath: Way = async () => {
  const file = findOnPath('promtool');
  if (file === undefined) return 'promtool is not on PATH';
  return program(file, 'PATH');
};

const inEngine: Way = async () => {
  const docker = findOnPath('docker');
  if (docker === undefined) return 'there is no docker';
  try {
    await promisify(execFile)(docker, ['image', 'inspect', image], { timeout: 10_000 });
    const tried = ['run', '--rm', '--entrypoint', 'promtool', image, '--version'];
    await promisify(execFile)(docker, tried, { timeout: 60_000 });
  } catch {
    return `no engine has ${image} with promtool in it`;
  }
  return {
    from: 'image',
    command: (folder) => ({
      file: docker,
      args: [
        ...['run', '--rm', '--network', 'none', '--entrypoint', 'promtool'],
        ...['--volume', `${folder}:${folder}:ro`, '--workdir', folder, image],
      ],
    }),
  };
};

const fromDebian: Way = async (listening) => {
  const [apt, dpkg] = [findOnPath('apt-get'), findOnPath('dpkg-deb')];
  if (apt === undefined || dpkg === undefined) return 'this is no Debian or Ubuntu';
  return inCache(listening, 'promtool-debian', async (session, filling) => {
    const run = toolOf(session, filling);
    await run('fetching Debian’s prometheus', [apt, 'download', 'prometheus']);
    const archive = readdirSync(filling).find((name) => name.endsWith('.deb'));
    if (archive === undefined) throw new CommandError('apt-get download left no package');
    await run('unpacking it', [dpkg, '-x', archive, 'all']);
    renameSync(join(filling, 'all/usr/bin/promtool'), join(filling, 'promtool'));
    await Promise.all(
      ['all', archive].map((name) => rm(join(filling, name), { recursive: true, force: true })),
    );
  });
};

const builtByGo: Way = async (listening) => {
  const go = findOnPath('go');
  if (go === undefined) return 'there is no Go to build it with';
  return inCache(listening, `promtool-${moduleVersion}`, async (session, filling) => {
    // Not `go install`, which refuses a module that replaces others. As a dependency its
    // replacements do not hold, and promtool needs none of them.
    const source = join(filling, 'source');
    mkdirSync(source);
    writeFileSync(join(source, 'go.mod'), 'module triplock/promtool\n\ngo 1.24\n');
    const run = toolOf(session, source);
    const main = `${module}/cmd/promtool`;
    await run('fetching promtool’s source', [go, 'get', `${main}@${moduleVersion}`]);
    await run('building promtool with Go, once', [go, 'build', '-o', '../promtool', main]);
    await rm(source, { recursive: true, force: true });
  });
};

async function inCache(
  listening: Pick<Session, 'report' | 'signal'>,
  entry: string,
  fill: (session: Session, filling: string) => Promise<void>,
): Promise<Promtool | string> {
  const session = openSession(createHome(), listening);
  try {
    const folder = await cached(
      session,
      { name: `${entry}-${process.platform}-${process.arch}` },
      (filling) => fill(session, filling),
    );
    const from = entry === 'promtool-debian' ? 'Debian package' : 'built';
    return await program(join(folder, 'promtool'), from);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return error.message;
  }
}

/** Runs a tool in a folder; its words are in promtool's log. */
function toolOf(session: Session, cwd: string) {
  return (doing: string, [file = '', ...args]: readonly string[]) => {
    const settings = process.env as Record<string, string>;
    return runTool(session, { name: 'promtool', doing, command: { file, args, cwd, settings } });
  };
}

async function program(file: string, from: Promtool['from']): Promise<Promtool | string> {
  if ((await askVersion(file, '--version')) === undefined) return `${file} does not run`;
  return { from, command: () => ({ file, args: [] }) };
}
