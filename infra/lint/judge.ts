import { execFile, type ExecFileException } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { check, getFileInfo, resolveConfig } from 'prettier';
import { fingerprints, hash, reachedFrom, readImports, type ImportGraph } from './imports.ts';
import { readWorkspace } from './projects.ts';
import { root, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

/** What a file is judged by: the rules of oxlint.config.ts, the compiler, Prettier. */
export type Aspect = 'rules' | 'types' | 'format';
export const aspects: readonly Aspect[] = ['rules', 'types', 'format'];

export type Judge = {
  /** All three unless given. */
  by?: readonly Aspect[];
  /** Judges also what is known to be good. */
  again?: boolean;
  /** The root of the workspace; this one's unless given. */
  folder?: string;
  /** Gets a line for each problem, and for what is done. */
  report: (line: string) => void;
  signal?: AbortSignal;
};

/** Of each file what it was when it was found good, by aspect; gone with `nx reset`. */
type Known = Partial<Record<Aspect, Record<string, string>>>;
const fileOfKnown = (folder: string) => join(folder, '.nx', 'judged.json');

/** All that is not known to be good yet, by aspect, with what it would be known by. */
type Open = Record<Aspect, Map<string, string>>;

/**
 * Judges every file of the workspace that is not known to be good: one that changed, one that
 * reaches by its imports what changed, all of them when a tool or its settings did. One program
 * holds everything for rules and types: most of the time goes into reading what all files import.
 *
 * @returns whether all is good.
 * @throws when a tool does not do its work, so that nothing passes unseen.
 */
export async function judge(options: Judge): Promise<boolean> {
  const { by = aspects, again = false, folder = root } = options;
  const files = workspaceFiles(folder);
  const knownFile = fileOfKnown(folder);
  const open = openOf({ files, folder, by, known: again ? {} : readKnown(knownFile) });
  const [code, format] = await Promise.all([
    judgeCode(open, { ...options, folder }),
    judgeFormat(files, [...open.format.keys()], { ...options, folder }),
  ]);
  remember(knownFile, open, { rules: code, types: code, format });
  return code.size + format.size === 0;
}

type Telling = Pick<Judge, 'report' | 'signal'> & { folder: string };

/** What the linter and the compiler find; the paths of files with a problem. */
async function judgeCode(open: Open, { report, signal, folder }: Telling): Promise<Set<string>> {
  const paths = [...new Set([...open.rules.keys(), ...open.types.keys()])];
  if (paths.length === 0) return new Set();
  const what = [open.rules.size > 0 && 'rules', open.types.size > 0 && 'types'].filter(Boolean);
  report(`${what.join(' and ')} of ${count(paths)} …`);
  const since = performance.now();
  const flags = [
    ...(open.rules.size > 0 ? [] : ['--config', join(root, 'infra', 'lint', 'types-only.json')]),
    ...(open.types.size > 0 ? ['--type-check'] : []),
  ];
  const problems = await oxlint([...flags, ...paths], { cwd: folder, signal });
  for (const problem of problems) report(lineOf(problem));
  report(`${what.join(' and ')}: ${verdict(problems.length)}, ${secondsSince(since)}`);
  return new Set(problems.map(({ filename }) => filename));
}

/** The paths among the given ones that Prettier would write otherwise. */
async function judgeFormat(
  files: readonly WorkspaceFile[],
  paths: readonly string[],
  { report, signal, folder }: Telling,
): Promise<Set<string>> {
  const wrong = new Set<string>();
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  if (paths.length > 0) report(`format of ${count(paths)} …`);
  const since = performance.now();
  const ignored = unformattedPaths(folder);
  for (const path of paths.filter((each) => !ignored.some((one) => isBelow(each, one)))) {
    signal?.throwIfAborted();
    const filepath = join(folder, path);
    const { inferredParser } = await getFileInfo(filepath, { ignorePath: [] });
    if (inferredParser === null) continue;
    const options = await resolveConfig(filepath, { editorconfig: true });
    if (await check(texts.get(path)!(), { ...options, filepath })) continue;
    wrong.add(path);
    report(`${path}: not formatted; npm run format mends it`);
  }
  if (paths.length > 0) report(`format: ${verdict(wrong.size)}, ${secondsSince(since)}`);
  return wrong;
}

/**
 * What .prettierignore names. Prettier itself would read it anew for every file.
 *
 * @throws for a pattern: here its lines are names and paths.
 */
function unformattedPaths(folder: string): string[] {
  const lines = readFileSync(join(folder, '.prettierignore'), 'utf8').split('\n').filter(Boolean);
  const pattern = lines.find((line) => /[*?![#]/.test(line));
  if (pattern !== undefined) throw new Error(`.prettierignore: ${pattern} is no plain path`);
  return lines;
}

function isBelow(path: string, named: string): boolean {
  return path === named || path.startsWith(`${named}/`);
}

/** What oxlint says of a place in a file. */
export type Problem = {
  message: string;
  help?: string;
  /** Such as `house(one-door)` or `typescript(TS2322)`; of a text that is no program, none. */
  code?: string;
  /** From where it runs. */
  filename: string;
  labels: readonly { span: { line: number; column: number } }[];
};

/**
 * Runs oxlint.
 *
 * @throws when it does not run to its end.
 */
export async function oxlint(
  args: readonly string[],
  { cwd, signal }: { cwd: string; signal?: AbortSignal | undefined },
): Promise<readonly Problem[]> {
  const program = join(root, 'node_modules', 'oxlint', 'bin', 'oxlint');
  const options = { cwd, maxBuffer: 256 * 1024 * 1024, ...(signal && { signal }) };
  const words = [program, '--format=json', ...args];
  const { error, stdout, stderr } = await new Promise<{
    error: ExecFileException | null;
    stdout: string;
    stderr: string;
  }>((resolve) => {
    execFile(process.execPath, words, options, (error, stdout, stderr) =>
      resolve({ error, stdout, stderr }),
    );
  });
  signal?.throwIfAborted();
  // Exit code 1 says that it found something, or that it did not run.
  const ran = (error === null || error.code === 1) && stdout.startsWith('{');
  if (!ran) throw new Error(`oxlint: ${stderr}${stdout}`.trim(), { cause: error });
  return (JSON.parse(stdout) as { diagnostics: readonly Problem[] }).diagnostics;
}

/** What is to be judged: whatever is known by another name than the one it has now. */
function openOf(work: {
  files: readonly WorkspaceFile[];
  folder: string;
  by: readonly Aspect[];
  known: Known;
}): Open {
  const { files, folder, by, known } = work;
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  const textOf = (path: string) => texts.get(path)?.();
  const graph = readImports(files, readWorkspace(folder));
  const sources = [...graph.sources.keys()];
  const compiled = sources.filter((path) => path.endsWith('.ts'));
  const meaningOf = fingerprints(graph, textOf);
  const ownText = (path: string) => hash(textOf(path)!);
  const decides = decisive(graph);
  const list = (aspect: Aspect, paths: readonly string[], name: (path: string) => string) => {
    if (!by.includes(aspect)) return new Map<string, string>();
    const settings = hash(
      files
        .filter(({ path }) => decides[aspect](path))
        .map(nameOf)
        .join(),
    );
    const names = paths.map((path) => [path, `${settings} ${name(path)}`] as const);
    return new Map(names.filter(([path, name]) => known[aspect]?.[path] !== name));
  };
  return {
    rules: list('rules', sources, meaningOf),
    types: list('types', compiled, meaningOf),
    format: list('format', [...texts.keys()], ownText),
  };
}

const packagesAndCompiler = /(^|\/)package\.json$|^package-lock\.json$|^tsconfig.*\.json$|\.d\.ts$/;
/** Prettier's version is pinned in package.json, as its options are. */
const formatter = /^(package\.json|\.editorconfig|\.prettierignore)$/;
/** What names the rules, and the plugin that it names: they import the others. */
const rulesOfOurs = ['oxlint.config.ts', 'infra/lint/house-rules.ts'];

/** Whether a file decides for every other: settings, versions of tools, who may import whom. */
function decisive(graph: ImportGraph): Readonly<Record<Aspect, (path: string) => boolean>> {
  const rules = new Set(rulesOfOurs.flatMap((path) => [...reachedFrom(graph, path)]));
  return {
    rules: (path) => packagesAndCompiler.test(path) || rules.has(path),
    types: (path) => packagesAndCompiler.test(path),
    format: (path) => formatter.test(path),
  };
}

function nameOf({ path, text }: WorkspaceFile): string {
  return `${path} ${hash(text())}`;
}

function readKnown(file: string): Known {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Known) : {};
}

/** Those of two that run at once may lose what the other found good: it is judged again. */
function remember(file: string, open: Open, wrong: Record<Aspect, ReadonlySet<string>>): void {
  const known = readKnown(file);
  for (const aspect of aspects) {
    const good = [...open[aspect]].filter(([path]) => !wrong[aspect].has(path));
    known[aspect] = { ...known[aspect], ...Object.fromEntries(good) };
  }
  mkdirSync(dirname(file), { recursive: true });
  const written = `${file}.${process.pid}`;
  writeFileSync(written, JSON.stringify(known));
  renameSync(written, file);
}

function lineOf({ filename, labels, message, help, code }: Problem): string {
  const { line, column } = labels[0]?.span ?? { line: 1, column: 1 };
  const hint = help === undefined ? '' : ` ${help}`;
  return `${filename}:${line}:${column}: ${message}${hint} (${code ?? 'syntax'})`;
}

function count(paths: readonly string[]): string {
  return paths.length === 1 ? paths[0]! : `${paths.length} files`;
}

function verdict(problems: number): string {
  return problems === 0 ? 'good' : problems === 1 ? '1 problem' : `${problems} problems`;
}

function secondsSince(began: number): string {
  return `${((performance.now() - began) / 1_000).toFixed(1)} s`;
}
