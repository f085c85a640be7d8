import { posix } from 'node:path';
import { reaching, readImports, type ImportGraph } from './imports.ts';
import { projectAt, readWorkspace, type Workspace } from './projects.ts';
import { root, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

/** What tests a change concerns. */
export type Affected = {
  /** Projects that have a change, and their tests; all of those. */
  changed: readonly { project: string; tests: readonly string[] }[];
  /** Other projects, and those of their tests that reach a change by what they import or name. */
  dependent: readonly { project: string; tests: readonly string[] }[];
  /** Changes that are of no project, such as the lock file: what they concern nobody can tell. */
  ofNoProject: readonly string[];
  /** Those of the tests that may ask for a real part: Redis, Kafka, PostgreSQL, Pub/Sub. */
  onParts: ReadonlySet<string>;
};

/** Through this file a test asks for real parts. */
const parts = 'libs/testing/parts.ts';

/** Judge every file of the workspace, whatever changes. */
const judgeAll = [
  'infra/lint/tidy.test.ts',
  'infra/lint/layers.test.ts',
  'infra/lint/imports.test.ts',
];

/** Finds the tests for files that changed, were added or are gone. */
export function affectedTests(changed: readonly string[]): Affected {
  return affectedIn(workspaceFiles(), readWorkspace(root), changed);
}

export function affectedIn(
  files: readonly WorkspaceFile[],
  workspace: Workspace,
  changed: readonly string[],
): Affected {
  const projectOf = (path: string) => projectAt(workspace, path)?.name;
  // A page is judged by the tests that judge everything.
  const relevant = changed.filter((path) => !path.endsWith('.md'));
  const own = new Set(relevant.flatMap((path) => projectOf(path) ?? []));
  const imports = readImports(files, workspace);
  const graph = withMentions(imports, files);
  const reachingParts = reaching(imports, [parts]);
  const reached = reaching(
    graph,
    relevant.flatMap((path) => meantBy(path, graph, workspace)),
  );
  const tests = [...graph.sources.keys()].filter((path) => path.endsWith('.test.ts')).sort();
  const always = changed.length > 0 ? judgeAll.filter((path) => graph.sources.has(path)) : [];
  const chosen = tests.filter(
    (path) => own.has(projectOf(path) ?? '') || reached.has(path) || always.includes(path),
  );
  const byProject = [...Map.groupBy(chosen, (path) => projectOf(path)!)].map(([project, own]) => ({
    project,
    tests: own,
  }));
  return {
    changed: byProject.filter(({ project }) => own.has(project)),
    dependent: byProject.filter(({ project }) => !own.has(project)),
    ofNoProject: relevant.filter((path) => projectOf(path) === undefined),
    onParts: new Set(chosen.filter((path) => reachingParts.has(path))),
  };
}

/**
 * A file that no source imports or names, such as one that is found by its folder, stands for every
 * source of its project.
 */
function meantBy(path: string, { sources, imports }: ImportGraph, workspace: Workspace): string[] {
  if (sources.has(path) || [...imports.values()].some((named) => named.includes(path)))
    return [path];
  const project = projectAt(workspace, path);
  if (project === undefined) return [path];
  const siblings = [...sources.keys()].filter((each) => projectAt(workspace, each) === project);
  return [path, ...siblings];
}

const ofTests = /\.test\.ts$|\/test\//;

/**
 * A path in a text counts as an import of a file that is read there. If it is a source, and so
 * maybe a program that is started, it counts for tests alone: the launcher names every program,
 * the test equipment the launcher, and all tests that.
 */
function withMentions(graph: ImportGraph, files: readonly WorkspaceFile[]): ImportGraph {
  const known = new Set(files.map(({ path }) => path));
  const mention = /['"`/]((?:\.{1,2}\/)?[\w@-][\w@./-]*\.\w+)['"`]/g;
  const imports = [...graph.sources.values()].map(({ path, text }) => {
    const named = [...text().matchAll(mention)]
      .flatMap(([, name]) => [name!, posix.join(posix.dirname(path), name!)])
      .filter((name) => known.has(name) && (!graph.sources.has(name) || ofTests.test(path)));
    return [path, [...new Set([...(graph.imports.get(path) ?? []), ...named])]] as const;
  });
  return { ...graph, imports: new Map(imports) };
}
