import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { ESLint } from 'eslint';
import ts from 'typescript';

/**
 * Lint and types of a project as targets of its own, so that what did not change is not judged
 * again. Most of the time goes into reading what everything imports: the projects that are due in
 * one run are therefore judged together, by one program, and each gets its own result.
 */

/** The projects of the root's own files: the pages, the compose file, the settings of tools. */
const rootProject = 'infra/lint';
const rootFiles = ['*.{js,json,md,yml}', '.github/**/*.{yml,json}', 'docs/**/*.md'];

export const lintOne = one(lintFolders);
export const lintMany = many(lintFolders);
export const typecheckOne = one(typecheckFolders);
export const typecheckMany = many(typecheckFolders);

function one(judge) {
  return async (_options, context) => {
    const { root } = context.projectsConfigurations.projects[context.projectName];
    const problems = await judge([root], context.root);
    const found = problems.get(root) ?? [];
    if (found.length > 0) console.error(found.join('\n'));
    return { success: found.length === 0 };
  };
}

function many(judge) {
  return async (taskGraph, _inputs, _overrides, context) => {
    const tasks = Object.values(taskGraph.tasks);
    const rootOf = (task) => context.projectsConfigurations.projects[task.target.project].root;
    const problems = await judge(tasks.map(rootOf), context.root);
    return Object.fromEntries(
      tasks.map((task) => {
        const found = problems.get(rootOf(task)) ?? [];
        // Nx shows what a failed task printed, unless it ran among others.
        if (found.length > 0) console.error(`\n${task.id}\n${found.join('\n')}`);
        return [task.id, { success: found.length === 0, terminalOutput: `${found.join('\n')}\n` }];
      }),
    );
  };
}

/** What ESLint and Prettier find, by the folder of the project. */
async function lintFolders(folders, root) {
  const withRoot = folders.includes(rootProject) ? rootFiles : [];
  const eslint = new ESLint({ cwd: root, errorOnUnmatchedPattern: false });
  const patterns = [...folders.map((folder) => `${folder}/**/*.{ts,js,mjs}`), ...withRoot];
  const results = await eslint.lintFiles(patterns.filter((each) => !/\.md$|yml/.test(each)));
  const formatter = await eslint.loadFormatter('stylish');
  const problems = new Map();
  for (const result of results.filter((each) => each.errorCount + each.warningCount > 0)) {
    report(problems, folders, relative(root, result.filePath), await formatter.format([result]));
  }
  for (const path of unformatted([...folders, ...withRoot], root)) {
    report(problems, folders, path, `${path}: not formatted; npm run format mends it`);
  }
  return problems;
}

function unformatted(patterns, root) {
  const prettier = join(root, 'node_modules', 'prettier', 'bin', 'prettier.cjs');
  const flags = ['--list-different', '--no-error-on-unmatched-pattern', '--ignore-unknown'];
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [prettier, ...flags, ...patterns],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  if (status !== 0 && status !== 1) throw new Error(`prettier: ${stderr}`);
  return stdout.split('\n').filter((line) => line !== '');
}

/** What the compiler finds in the projects' own files, by the folder of the project. */
function typecheckFolders(folders, root) {
  const { config, error } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  if (error !== undefined) throw new Error(ts.flattenDiagnosticMessageText(error.messageText, ' '));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const names = folders.flatMap((folder) =>
    globSync(`${folder}/**/*.ts`, { cwd: root, exclude: ['**/node_modules'] }),
  );
  const own = new Set(names.map((name) => join(root, name)));
  const program = ts.createProgram([...own], options);
  const problems = new Map();
  const found = [...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics()];
  for (const file of program.getSourceFiles().filter(({ fileName }) => own.has(fileName))) {
    found.push(...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file));
  }
  for (const diagnostic of found) {
    const path = relative(
      root,
      diagnostic.file?.fileName ?? join(root, folders[0], 'tsconfig.json'),
    );
    const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => root };
    const text = ts.formatDiagnostic(diagnostic, { ...host, getNewLine: () => '\n' });
    report(problems, folders, path, text.trimEnd());
  }
  return problems;
}

/** Notes a problem with the project that the file is of: the deepest folder that holds it. */
function report(problems, folders, path, text) {
  const holding = folders.filter((folder) => path.startsWith(`${folder}${sep}`));
  const folder = holding.sort((a, b) => b.length - a.length)[0] ?? rootProject;
  problems.set(folder, [...(problems.get(folder) ?? []), text]);
}
