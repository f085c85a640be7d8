import { posix } from 'node:path';
import ts from 'typescript';
import { workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

/** What reading the house costs, in numbers; `limits` says how heavy it may be. */
export type Weight = {
  /** Every file that belongs to the workspace. */
  files: number;
  /** TypeScript outside of tests, their suites and their folders. */
  productFiles: number;
  medianLines: number;
  /** Product files of 30 lines or fewer: most are half a subject. Barrels do not count. */
  dust: number;
  /** Types that take a service apart into named bags of parts. */
  parts: number;
  /** Groups of files that import each other, types too. */
  circles: number;
};

/** Counts follow from subjects: who reaches one of these looks first for what has no user. */
export const limits: Readonly<Omit<Weight, 'medianLines'>> = {
  files: 1_090,
  productFiles: 530,
  dust: 30,
  parts: 5,
  circles: 0,
};

const dustLines = 30;
const productFolders = /^(services|libs|demo|infra|load-tests|e2e)\//;
const testFile = /\.(test|testing|conformance)\.ts$|\/test\//;

/** Weighs the files of this workspace. */
export function weighHouse(): Weight {
  const files = workspaceFiles();
  const product = productSources(files);
  const lines = product.map(lineCount).sort((a, b) => a - b);
  return {
    files: files.length,
    productFiles: product.length,
    medianLines: lines[Math.floor(lines.length / 2)] ?? 0,
    dust: findDust(product).length,
    parts: findParts(product).length,
    circles: findCircles(sourcesOf(files)).length,
  };
}

function productSources(files: readonly WorkspaceFile[]): WorkspaceFile[] {
  return sourcesOf(files).filter(
    ({ path }) => productFolders.test(path) && !testFile.test(path) && !path.endsWith('.d.ts'),
  );
}

export function findDust(product: readonly WorkspaceFile[]): string[] {
  return product
    .filter(({ path }) => posix.basename(path) !== 'index.ts')
    .filter((file) => lineCount(file) <= dustLines)
    .map(({ path }) => path);
}

export function findParts(product: readonly WorkspaceFile[]): string[] {
  return product.flatMap(({ path, text }) =>
    [...text().matchAll(/^(?:export )?(?:type|interface) (\w*Parts)\b/gm)].map(
      ([, name]) => `${path}: ${name}`,
    ),
  );
}

/**
 * Every group of files that import each other, directly or around a corner. An import of a type
 * counts: whoever reads one file of such a group has to read them all.
 */
export function findCircles(sources: readonly WorkspaceFile[]): string[][] {
  const paths = new Set(sources.map(({ path }) => path));
  const imports = new Map(
    sources.map((file) => [file.path, importsOf(file).filter((each) => paths.has(each))]),
  );
  return stronglyConnected(imports).filter((group) => group.length > 1);
}

function sourcesOf(files: readonly WorkspaceFile[]): WorkspaceFile[] {
  return files.filter(({ path }) => path.endsWith('.ts'));
}

function lineCount({ text }: WorkspaceFile): number {
  return text().trimEnd().split('\n').length;
}

function importsOf({ path, text }: WorkspaceFile): string[] {
  return ts
    .preProcessFile(text(), true, false)
    .importedFiles.map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.'))
    .map((name) => posix.join(posix.dirname(path), name));
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

if (import.meta.main) {
  const files = workspaceFiles();
  const product = productSources(files);
  console.log(JSON.stringify(weighHouse()));
  if (process.argv.includes('--all')) {
    const lists = {
      dust: findDust(product),
      parts: findParts(product),
      circles: findCircles(sourcesOf(files)).map((group) => group.join(' ')),
    };
    for (const [what, names] of Object.entries(lists))
      console.log(`\n${what}\n${names.map((name) => `  ${name}`).join('\n')}`);
  }
}
