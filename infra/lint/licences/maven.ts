import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { WorkspaceFile } from '../workspace-files.ts';
import type { Licensed } from './allowed.ts';
import { isSource } from './programs.ts';

/**
 * What the launcher has Maven fetch: what it needs of POMs beside the parts, and single artifacts.
 */
export type Wanted = { poms: readonly WorkspaceFile[]; artifacts: readonly string[] };

/**
 * Finds what Maven is asked for by the workspace: every POM, and every artifact that a text names.
 */
export function wantedOfMaven(files: readonly WorkspaceFile[]): Wanted {
  const sources = files.filter(({ path }) => isSource(path));
  const artifact = /['"`]([\w-]+(?:\.[\w-]+)+:[\w.-]+:\d[\w.-]*)['"`]/g;
  const named = sources.flatMap(({ text }) =>
    [...text().matchAll(artifact)].map(([, one]) => one!),
  );
  return {
    poms: files.filter(({ path }) => /(^|[/-])pom\.xml$/.test(path)),
    artifacts: [...new Set(named)],
  };
}

/** Java's second compiler and its collector in the background cost a run of seconds its half. */
const forShortRuns = '-XX:+UseSerialGC -XX:TieredStopAtLevel=1';

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1';

/**
 * Has Maven fetch what it is asked for, with the POMs and those above them, and reads the licences
 * there: of what a POM needs all of it, of an artifact that a source names that one alone, as the
 * launcher has it. What Maven has fetched before it takes from its own repository.
 *
 * @throws when there is no Maven, or it does not get them: then nothing is known.
 */
export function mavenLicences({ poms, artifacts }: Wanted): Licensed[] {
  const all = [
    ...poms.flatMap(({ text }) => askMaven(text())),
    ...(artifacts.length > 0 ? askMaven(pomFor(artifacts)) : []),
  ];
  const byName = new Map(all.map((each) => [`${each.name}@${each.version}`, each]));
  return [...byName.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function askMaven(pom: string): Licensed[] {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-licences-'));
  try {
    writeFileSync(join(folder, 'pom.xml'), pom);
    const goal = `${plugin}:copy-dependencies`;
    const withPoms = ['-Dmdep.copyPom=true', '-Dmdep.addParentPoms=true'];
    const layout = ['-Dmdep.useRepositoryLayout=true', `-DoutputDirectory=${folder}/fetched`];
    const args = ['-B', '-q', '-Dstyle.color=never', goal, ...withPoms, ...layout];
    const { MAVEN_OPTS: given = '' } = process.env;
    const env = { ...process.env, MAVEN_OPTS: `${forShortRuns} ${given}` };
    const { status, error, stdout } = spawnSync('mvn', args, {
      cwd: folder,
      encoding: 'utf8',
      env,
    });
    if (error !== undefined) throw new Error(`Maven cannot be asked: ${error.message}`);
    if (status !== 0) throw new Error(`Maven does not get what it is asked for: ${stdout}`);
    return licencesIn(join(folder, 'fetched'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A POM that asks for these artifacts, and for nothing that they need. */
function pomFor(artifacts: readonly string[]): string {
  const wanted = artifacts.map((artifact) => {
    const [group, name, version] = artifact.split(':');
    const ids = `<groupId>${group}</groupId><artifactId>${name}</artifactId>`;
    return `<dependency>${ids}<version>${version}</version>${alone}</dependency>`;
  });
  return `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
    <groupId>triplock</groupId><artifactId>licences</artifactId><version>1</version>
    <dependencies>${wanted.join('')}</dependencies></project>`;
}

const alone =
  '<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>';

/** The licences of every artifact in a folder that is laid out as a repository of Maven is. */
export function licencesIn(repository: string): Licensed[] {
  const jars = globSync('**/*.jar', { cwd: repository });
  return jars.map((jar) => {
    const [version = '', artifact = '', ...group] = dirname(jar).split('/').toReversed();
    const coordinates = { group: group.toReversed().join('.'), artifact, version };
    const name = `${coordinates.group}:${artifact}`;
    const licence = licenceOf(repository, coordinates);
    return { source: 'Maven', name, version, licence, place: 'beside ours' };
  });
}

type Coordinates = { group: string; artifact: string; version: string };

/**
 * By an artifact's POM, or by the one nearest above it that says anything (Maven, "POM Reference").
 */
function licenceOf(repository: string, { group, artifact, version }: Coordinates): string {
  const folder = join(repository, ...group.split('.'), artifact, version);
  const [path] = globSync('*.pom', { cwd: folder });
  if (path === undefined) return `no POM of ${group}:${artifact}:${version}`;
  const { licences, parent } = readPom(readFileSync(join(folder, path), 'utf8'));
  if (licences.length > 0) return licences.map(spdxOf).join(' OR ');
  return parent === undefined ? 'no licence' : licenceOf(repository, parent);
}

type Named = { name: string; url: string };

/**
 * What a POM says of licences, where whoever takes it may choose one, and which POM is above it.
 * Only what stands at these places counts: plugins have settings of the same names.
 */
function readPom(pom: string): { licences: Named[]; parent: Coordinates | undefined } {
  const licences: Named[] = [];
  const parent: Record<string, string> = {};
  const path: string[] = [];
  const part =
    /<!--[^]*?-->|<\?[^]*?\?>|<!\[CDATA\[([^]*?)\]\]>|<(\/?)([\w:.-]+)[^>]*?(\/?)>|([^<]+)/g;
  for (const [, cdata, closes, name, isEmpty, text] of pom.matchAll(part)) {
    if (name !== undefined) {
      if (closes) path.pop();
      else if (!isEmpty) path.push(name);
      const isLicence = path.join('/') === 'project/licenses/license';
      if (isLicence && name === 'license' && !closes) licences.push({ name: '', url: '' });
      continue;
    }
    const words = (cdata ?? text ?? '').trim();
    const [at, last = ''] = [path.slice(0, -1).join('/'), path.at(-1)];
    const current = licences.at(-1);
    if (at === 'project/parent') parent[last] = (parent[last] ?? '') + words;
    if (at === 'project/licenses/license' && current !== undefined && isOfLicence(last)) {
      current[last] += words;
    }
  }
  const { groupId: group, artifactId: artifact, version } = parent;
  if (!group || !artifact || !version) return { licences, parent: undefined };
  return { licences, parent: { group, artifact, version } };
}

const isOfLicence = (name: string): name is keyof Named => name === 'name' || name === 'url';

/** How authors of POMs call the licences: by words, or where their text is. */
const spellings: readonly (readonly [form: RegExp, id: string])[] = [
  [
    /^Apache( Software)? License,?( Version)? 2\.0$|^The Apache( Software)? License, Version 2\.0$/,
    'Apache-2.0',
  ],
  [
    /^Apache[- ]2\.0( License)?$|^https?:\/\/(www\.)?apache\.org\/licenses\/LICENSE-2\.0/,
    'Apache-2.0',
  ],
  [/^(The )?MIT( License)?$/, 'MIT'],
  [/^(The )?BSD 2-Clause License$|^BSD-2-Clause$/, 'BSD-2-Clause'],
  [/^(The )?BSD 3-Clause License$|^BSD-3-Clause$/, 'BSD-3-Clause'],
  // The text at https://golang.org/LICENSE is that of BSD-3-Clause.
  [/^Go License$/, 'BSD-3-Clause'],
  [/^EPL[ -]2\.0$/, 'EPL-2.0'],
  [/^CC0-1\.0$|^Public Domain, per Creative Commons CC0$/, 'CC0-1.0'],
];

/** The SPDX id of a licence in a POM; its own words where none is known for them. */
function spdxOf({ name, url }: Named): string {
  const known =
    spellings.find(([form]) => form.test(name)) ?? spellings.find(([form]) => form.test(url));
  // In one word: no expression could be read out of it by chance.
  return known?.[1] ?? `'${(name || url || 'no name').replaceAll(/\s+/g, '-')}'`;
}
