import { execFile } from 'node:child_process';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { runTool } from '../processes/run-tool.ts';
import { openSession, type Session } from '../session.ts';
import { askVersion, findOnPath, waysToK6 } from './installed.mjs';
import pins from './pins.json' with { type: 'json' };
import { cached } from './programs.ts';

const { version } = pins.k6;
const image = `grafana/k6:${version}`;

/** How k6 is called here: what stands before its own words. */
export type K6 = {
  from: 'PATH' | 'image' | 'built';
  version: string;
  /** How it sees a URL of this machine, which a container may know by another name. */
  seen(url: string): string;
  /** The command that runs it with these variables and sees this folder under its own path. */
  command(run: { folder: string; variables: readonly string[] }): { file: string; args: string[] };
};

/** Who looks for k6: `note` is told once what will take long, `report` how it goes on. */
export type K6Listening = Pick<Session, 'report' | 'signal'> & { note: Session['report'] };

/**
 * Finds k6: on PATH, as an image that an engine has, or built by Go into the cache, once.
 *
 * @throws CommandError that names the ways to get it when there is none.
 */
export async function findK6(listening: K6Listening): Promise<K6> {
  return (await onPath()) ?? (await inEngine()) ?? (await built(listening));
}

async function onPath(): Promise<K6 | undefined> {
  const file = findOnPath('k6');
  return file === undefined ? undefined : program(file, 'PATH');
}

async function program(file: string, from: K6['from']): Promise<K6 | undefined> {
  // The npm package of that name is an empty placeholder; what says no version is no k6.
  const [, major, rest] =
    /k6(?:\.exe)? v(\d+)(\S*)/.exec((await askVersion(file, 'version')) ?? '') ?? [];
  // TypeScript runs as it is from 1.0 on.
  if (!(Number(major) >= 1)) return undefined;
  const seen = (url: string) => url;
  return { from, version: `${major}${rest}`, seen, command: () => ({ file, args: [] }) };
}

async function inEngine(): Promise<K6 | undefined> {
  const docker = findOnPath('docker');
  if (docker === undefined) return undefined;
  try {
    await promisify(execFile)(docker, ['image', 'inspect', image], { timeout: 10_000 });
  } catch {
    return undefined; // No engine answers, or it has no such image: there is a third way.
  }
  const { uid, gid } = userInfo();
  const owner = uid < 0 ? [] : ['--user', `${uid}:${gid}`];
  const network = sharesNetwork(process.platform) ? ['--network', 'host'] : [];
  return {
    from: 'image',
    version,
    seen: (url) => seenInEngine(url, process.platform),
    command: ({ folder, variables }) => ({
      file: docker,
      args: [
        ...['run', '--rm', '--init', ...network, ...owner],
        ...['--volume', `${folder}:${folder}`, '--workdir', folder],
        ...variables.flatMap((name) => ['--env', name]),
        image,
      ],
    }),
  };
}

/**
 * How a container sees a URL of its host. On Linux it shares the host's network; Docker Desktop's
 * containers run in a machine of their own and call the host by a name
 * (docs.docker.com/desktop/features/networking).
 */
export function seenInEngine(url: string, platform: NodeJS.Platform): string {
  if (sharesNetwork(platform)) return url;
  return url.replace(/\/\/(?:127\.0\.0\.1|localhost)(?=[:/]|$)/, '//host.docker.internal');
}

function sharesNetwork(platform: NodeJS.Platform): boolean {
  return platform === 'linux';
}

async function built({ report, note, signal }: K6Listening): Promise<K6> {
  const go = findOnPath('go');
  if (go === undefined) throw new CommandError(waysToK6(version));
  const session = openSession(createHome(), { report, signal });
  const folder = await cached(
    session,
    { name: `k6-${version}-${process.platform}-${process.arch}` },
    async (filling) => {
      note(
        `k6 ${version} is not here and is built from source by ${go}, once: a minute or two, longer on a busy machine. One on PATH is taken instead`,
      );
      const settings = { ...(process.env as Record<string, string>), GOBIN: filling };
      await runTool(session, {
        name: 'k6',
        doing: 'building k6 with Go, once',
        stepOf: stepOfGo,
        command: {
          file: go,
          args: ['install', '-v', `go.k6.io/k6@v${version}`],
          cwd: filling,
          settings,
        },
      });
    },
  );
  const found = await program(join(folder, 'k6'), 'built');
  if (found === undefined)
    throw new CommandError(`k6 in ${folder} does not run: delete the folder`);
  return found;
}

/**
 * What `go install -v` is at: it names each module that it downloads and each package that it
 * compiles, and is silent while it asks which modules there are and while it links.
 */
export function stepOfGo(lines: readonly string[]): string {
  const last = lines.at(-1);
  if (last === undefined) return 'Go asks which modules it takes';
  const downloaded = lines.filter((line) => line.startsWith('go: downloading ')).length;
  if (last.startsWith('go: ')) return `${last.slice('go: '.length)} (${downloaded} modules)`;
  const compiled = lines.filter((line) => !line.startsWith('go: ')).length;
  return last === 'go.k6.io/k6' ? 'linking it' : `compiled ${compiled} packages, ${last}`;
}
