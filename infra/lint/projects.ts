import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** A package of the workspace, as its package.json has it. */
export type Project = {
  name: string;
  /** From the root of the workspace, with `/` between folders. */
  folder: string;
  /** What stands behind `kind:` in its tags, if anything does. */
  kind: string | undefined;
  /** Every package that it declares to need, for its tests too. */
  declared: ReadonlySet<string>;
  /** The paths behind its doors, by what follows the package's name: '', '/service', … */
  doors: ReadonlyMap<string, string>;
};

export type Workspace = {
  /** Absolute. */
  root: string;
  projects: readonly Project[];
  byName: ReadonlyMap<string, Project>;
  /** What the root declares, for all. */
  declared: ReadonlySet<string>;
  /** Whether `from` needs `to`, directly or around corners, by what is declared. */
  reaches: (from: Project, to: Project) => boolean;
  /** A file's path from the root, with `/` between folders. */
  pathOf: (file: string) => string;
};

type Manifest = {
  name: string;
  workspaces?: readonly string[];
  exports?: string | Readonly<Record<string, string>>;
  nx?: { tags?: readonly string[] };
} & Partial<Record<(typeof dependencyFields)[number], Readonly<Record<string, string>>>>;

const dependencyFields = ['dependencies', 'devDependencies', 'optionalDependencies'] as const;

/** Reads the package.json of the root and of every project. */
export function readWorkspace(root: string): Workspace {
  const manifest = readManifest(root);
  const folders = globSync(
    (manifest.workspaces ?? []).map((pattern) => `${pattern}/package.json`),
    { cwd: root },
  );
  const projects = folders
    .map((path) => dirname(path).replaceAll('\\', '/'))
    .sort()
    .map((folder) => projectOf(folder, readManifest(join(root, folder))));
  const byName = new Map(projects.map((project) => [project.name, project]));
  const needs = new Map(projects.map((project) => [project, closureOf(project, byName)]));
  return {
    root,
    projects,
    byName,
    declared: declaredBy(manifest),
    reaches: (from, to) => needs.get(from)?.has(to) === true,
    pathOf: (file) => relative(root, file).split(sep).join('/'),
  };
}

const known = new Map<string, Workspace>();

/** The workspace that a file is in, read once; `undefined` outside of one. */
export function workspaceAround(file: string): Workspace | undefined {
  const root = rootAbove(dirname(file));
  if (root === undefined) return undefined;
  const workspace = known.get(root) ?? readWorkspace(root);
  known.set(root, workspace);
  return workspace;
}

function rootAbove(folder: string): string | undefined {
  if (existsSync(join(folder, 'package.json')) && readManifest(folder).workspaces) return folder;
  const above = dirname(folder);
  return above === folder ? undefined : rootAbove(above);
}

function closureOf(project: Project, byName: ReadonlyMap<string, Project>): Set<Project> {
  const found = new Set<Project>();
  const open = [project];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const needed = [...next.declared].flatMap((name) => byName.get(name) ?? []);
    for (const one of needed.filter((each) => !found.has(each))) {
      found.add(one);
      open.push(one);
    }
  }
  return found;
}

/** The project that a file belongs to, by its path from the root; the deepest that holds it. */
export function projectAt({ projects }: Workspace, path: string): Project | undefined {
  const holding = projects.filter(({ folder }) => path.startsWith(`${folder}/`));
  return holding.sort((a, b) => b.folder.length - a.folder.length)[0];
}

/** The name of the package that a specifier leads into. */
export function packageOf(specifier: string): string {
  const [first = '', second] = specifier.split('/');
  return first.startsWith('@') && second !== undefined ? `${first}/${second}` : first;
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

function projectOf(folder: string, manifest: Manifest): Project {
  const { name, exports = {}, nx } = manifest;
  const doors = typeof exports === 'string' ? { '.': exports } : exports;
  return {
    name,
    folder,
    kind: nx?.tags?.find((tag) => tag.startsWith('kind:'))?.slice('kind:'.length),
    declared: declaredBy(manifest),
    doors: new Map(
      Object.entries(doors).map(([door, path]) => [door.slice(1), path.replace(/^\.\//, '')]),
    ),
  };
}

function declaredBy(manifest: Manifest): Set<string> {
  return new Set(dependencyFields.flatMap((field) => Object.keys(manifest[field] ?? {})));
}
