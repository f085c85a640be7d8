import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkspaceFile } from '../workspace-files.ts';
import type { Licensed } from './allowed.ts';
import { isSource } from './programs.ts';

/** A Python package of one version. */
export type Wheel = { name: string; version: string };

/**
 * Finds the wheels that pip is asked for, in sources that speak of it: an object with name and
 * version for each, or `name==version`, as pip has it.
 */
export function wheelsOf(files: readonly WorkspaceFile[]): Wheel[] {
  const wheels = files.filter(fetchesByPip).flatMap(wheelsIn);
  return [...new Map(wheels.map((each) => [`${each.name}==${each.version}`, each])).values()];
}

/** Lists of wheels, each by its version and hash, that programs of partners need. */
function requirementsOf(files: readonly WorkspaceFile[]): WorkspaceFile[] {
  return files.filter(({ path }) => path.endsWith('/requirements.txt'));
}

/** Sources that have pip fetch something and name no version of it in these ways, nor a list. */
export function unreadOfPip(files: readonly WorkspaceFile[]): string[] {
  const isKnown = (file: WorkspaceFile) =>
    wheelsIn(file).length > 0 ||
    (requirementsOf(files).length > 0 &&
      /'--requirement',\s+'requirements\.txt'/.test(file.text()));
  return files
    .filter((file) => fetchesByPip(file) && !isKnown(file))
    .map(({ path }) => `${path}: it has pip fetch something, and no version of it is found`);
}

function fetchesByPip({ path, text }: WorkspaceFile): boolean {
  return isSource(path) && /'pip'[^]{0,40}'(download|install|wheel)'/.test(text());
}

function wheelsIn({ text }: WorkspaceFile): Wheel[] {
  const forms = [
    /\bname: '([\w.-]+)',\s+version: '(\d[\w.]*)'/g,
    /['"`]([a-zA-Z][\w.-]*)==(\d[\w.]*)['"`]/g,
  ];
  return forms.flatMap((form) =>
    [...text().matchAll(form)].map(([, name, version]) => ({ name: name!, version: version! })),
  );
}

/**
 * Has pip fetch the wheels, and reads what they say of themselves. What they carry of others is in
 * the table of programs.
 *
 * @throws when there is no Python with pip, or it does not get them: then nothing is known.
 */
export function wheelLicences(wheels: readonly Wheel[]): Licensed[] {
  return wheels.map((wheel) => licenceOfWheel(wheel, metadataOf(wheel)));
}

function metadataOf({ name, version }: Wheel): string {
  return withPip(({ folder, python, download }) => {
    download(`${name}==${version}`);
    const file = readdirSync(folder).find((each) => each.endsWith('.whl'))!;
    return python('-c', readMetadata, file);
  });
}

/** The same of all wheels that the lists ask for on this machine: libraries, without a program. */
export function requiredLicences(files: readonly WorkspaceFile[]): Licensed[] {
  return requirementsOf(files).flatMap(({ text }) =>
    withPip(({ folder, python, download }) => {
      writeFileSync(join(folder, 'requirements.txt'), text());
      download('--require-hashes', '--requirement', 'requirements.txt');
      const wheels = readdirSync(folder).filter((each) => each.endsWith('.whl'));
      return wheels.map((file) => {
        // Of a wheel's name these two parts come first (Python's binary distribution format).
        const [name = '', version = ''] = file.split('-');
        return licenceOfWheel({ name, version }, python('-c', readMetadata, file));
      });
    }),
  );
}

type Pip = {
  folder: string;
  python: (...words: string[]) => string;
  /** Into the folder, wheels alone. */
  download: (...words: string[]) => void;
};

function withPip<Result>(work: (pip: Pip) => Result): Result {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-licences-'));
  const python = (...words: string[]): string => {
    const { status, error, stdout, stderr } = spawnSync('python3', words, {
      cwd: folder,
      encoding: 'utf8',
    });
    if (error !== undefined) throw new Error(`Python cannot be asked: ${error.message}`);
    if (status !== 0) throw new Error(`python3 ${words.join(' ')}: ${stderr}`);
    return stdout;
  };
  const download = (...words: string[]) => {
    const quiet = ['--quiet', '--no-input', '--disable-pip-version-check'];
    python('-m', 'pip', 'download', ...quiet, '--no-deps', '--only-binary=:all:', ...words);
  };
  try {
    return work({ folder, python, download });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const readMetadata = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    [path] = [each for each in wheel.namelist() if each.endswith('.dist-info/METADATA')]
    sys.stdout.write(wheel.read(path).decode())
`;

/** What classifiers of PyPI mean by SPDX. */
const classifiers: Readonly<Record<string, string>> = {
  'License :: OSI Approved :: MIT License': 'MIT',
  'License :: OSI Approved :: Apache Software License': 'Apache-2.0',
  'License :: OSI Approved :: BSD License': 'BSD-3-Clause',
  'License :: OSI Approved :: ISC License (ISCL)': 'ISC',
  'License :: OSI Approved :: GNU Affero General Public License v3': 'AGPL-3.0-only',
  'License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)': 'MPL-2.0',
};

/**
 * By the wheel's metadata (Python's core metadata 2.4): its expression, else what it is classified
 * as, else its free text, as it stands there.
 */
export function licenceOfWheel({ name, version }: Wheel, metadata: string): Licensed {
  const [head = ''] = metadata.replaceAll('\r\n', '\n').split('\n\n');
  const valuesOf = (field: string) =>
    [...head.matchAll(new RegExp(`^${field}: *(.*)$`, 'gm'))].map(([, value]) => value!);
  const [expression] = valuesOf('License-Expression');
  const classified = valuesOf('Classifier').flatMap((each) => classifiers[each] ?? []);
  const [free] = valuesOf('License');
  const own = classified.length > 0 ? classified.join(' AND ') : free;
  const licence = expression ?? own ?? 'no licence';
  return { source: 'PyPI', name, version, licence, place: 'beside ours' };
}
