import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { runTool } from '../processes/run-tool.ts';
import { openSession, type Session } from '../session.ts';
import { programOfDebian } from './debian.ts';
import { askVersion, findOnPath } from './installed.mjs';
import { cached } from './programs.ts';

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
  const session = openSession(createHome(), listening);
  const why: string[] = [];
  for (const way of [onPath, inEngine, fromDebian, builtByGo]) {
    const found = await way(session).catch((error: unknown) => {
      if (error instanceof CommandError) return error.message;
      throw error;
    });
    if (typeof found !== 'string') return { outcome: 'found', promtool: found };
    why.push(found);
  }
  return { outcome: 'missing', why };
}

/** What was found, or what is lacking. */
type Way = (session: Session) => Promise<Promtool | string>;

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

const fromDebian: Way = async (session) => {
  const packages = ['prometheus'] as const;
  const wanted = { name: 'promtool', title: 'prometheus', packages, file: 'usr/bin/promtool' };
  return program(await programOfDebian(session, wanted), 'Debian package');
};

const builtByGo: Way = async (session) => {
  const go = findOnPath('go');
  if (go === undefined) return 'there is no Go to build it with';
  const entry = { name: `promtool-${moduleVersion}-${process.platform}-${process.arch}` };
  const folder = await cached(session, entry, async (filling) => {
    // Not `go install`, which refuses a module that replaces others. As a dependency its
    // replacements do not hold, and promtool needs none of them.
    const source = join(filling, 'source');
    mkdirSync(source);
    writeFileSync(join(source, 'go.mod'), 'module triplock/promtool\n\ngo 1.24\n');
    const settings = process.env as Record<string, string>;
    const run = (doing: string, ...args: readonly string[]) => {
      const command = { file: go, args, cwd: source, settings };
      return runTool(session, { name: 'promtool', doing, command });
    };
    const main = `${module}/cmd/promtool`;
    await run('fetching promtool’s source', 'get', `${main}@${moduleVersion}`);
    await run('building promtool with Go, once', 'build', '-o', '../promtool', main);
    await rm(source, { recursive: true, force: true });
  });
  return program(join(folder, 'promtool'), 'built');
};

async function program(file: string, from: Promtool['from']): Promise<Promtool | string> {
  if ((await askVersion(file, '--version')) === undefined) return `${file} does not run`;
  return { from, command: () => ({ file, args: [] }) };
}
