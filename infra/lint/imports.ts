import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { packageOf, type Workspace } from './projects.ts';
import type { WorkspaceFile } from './workspace-files.ts';

/** Which files of the workspace each source imports, types too. */
export type ImportGraph = {
  /** Every source, by its path. */
  sources: ReadonlyMap<string, WorkspaceFile>;
  imports: ReadonlyMap<string, readonly string[]>;
};

const source = /\.(ts|js|mjs)$/;

/**
 * An import or a re-export as it is formatted here, static or dynamic. Whatever else looks like
 * one, such as an example in a test's text, is taken for one.
 */
const specifier = /\b(?:from|import)\s*\(?\s*'([^'\n]+)'/g;

/** Reads what every source imports; what leads out of the workspace is left out. */
export function readImports(
  files: readonly WorkspaceFile[],
  workspace: Pick<Workspace, 'byName'>,
): ImportGraph {
  const known = new Set(files.map(({ path }) => path));
  const sources = new Map(
    files.filter(({ path }) => source.test(path)).map((file) => [file.path, file]),
  );
  const targetOf = (path: string, name: string): string | undefined => {
    if (name.startsWith('.')) return posix.join(posix.dirname(path), name);
    const target = workspace.byName.get(packageOf(name));
    const door = target?.doors.get(name.slice(target.name.length));
    return target && door && posix.join(target.folder, door);
  };
  const imports = [...sources.values()].map(({ path, text }) => {
    const targets = [...text().matchAll(specifier)].map(([, name]) => targetOf(path, name!));
    const found = targets.filter((each) => each !== undefined && known.has(each));
    return [path, [...new Set(found as string[])]] as const;
  });
  return { sources, imports: new Map(imports) };
}

/** The files that a file's meaning depends on: itself, what it imports, and so on. */
export function reachedFrom({ imports }: ImportGraph, path: string): Set<string> {
  const reached = new Set([path]);
  // A set is walked to its end, also as it grows.
  for (const each of reached) for (const next of imports.get(each) ?? []) reached.add(next);
  return reached;
}

/** Those sources that are, or reach, one of the given files. */
export function reaching({ imports }: ImportGraph, paths: readonly string[]): Set<string> {
  const importers = new Map<string, string[]>();
  for (const [path, targets] of imports) {
    for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), path]);
  }
  const reached = new Set(paths);
  for (const each of reached) for (const next of importers.get(each) ?? []) reached.add(next);
  return reached;
}

/**
 * One name for all that the judgement of a source rests on, within the workspace: its text and
 * those of the files that it reaches.
 */
export function fingerprints(
  graph: ImportGraph,
  textOf: (path: string) => string | undefined,
): (path: string) => string {
  const own = new Map<string, string>();
  const digestOf = (path: string) => {
    const digest = own.get(path) ?? hash(textOf(path) ?? '');
    own.set(path, digest);
    return digest;
  };
  return (path) => {
    const reached = [...reachedFrom(graph, path)].sort();
    return hash(reached.map((each) => `${each} ${digestOf(each)}`).join('\n'));
  };
}

export function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/**
 * Every group of files that import each other, directly or around a corner. An import of a type
 * counts: whoever reads one file of such a group has to read them all.
 */
export function findCircles({ imports }: ImportGraph): string[][] {
  return stronglyConnected(imports).filter((group) => group.length > 1);
}

/** Tarjan's algorithm: every node once, in groups that reach each other. */
function stronglyConnected(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const groups: string[][] = [];
  const visit = (node: string): number => {
    const index = order.size;
    order.set(node, index);
    lowest.set(node, index);
    open.push(node);
    for (const next of edges.get(node) ?? []) {
      const reached = order.has(next)
        ? open.includes(next)
          ? order.get(next)!
          : index
        : visit(next);
      lowest.set(node, Math.min(lowest.get(node)!, reached));
    }
    if (lowest.get(node) === index) groups.push(open.splice(open.indexOf(node)).sort());
    return lowest.get(node)!;
  };
  for (const node of edges.keys()) if (!order.has(node)) visit(node);
  return groups;
}
