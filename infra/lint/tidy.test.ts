import assert from 'node:assert/strict';
import { posix } from 'node:path';
import { test } from 'node:test';
import { projectFolders, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

type Manifest = Partial<Record<'dependencies' | 'devDependencies', Record<string, string>>> & {
  exports?: string | Record<string, string>;
};

const files = workspaceFiles();
const projects = projectFolders(files);
const sources = files.filter(({ path }) => /\.(ts|js|mjs|sql|lua)$/.test(path));
const documents = files.filter(({ path }) => path.endsWith('.md'));

test('the front page is short and shows both commands at once', () => {
  const lines = fileAt('README.md').text().trimEnd().split('\n');
  const top = lines.slice(0, 25).join('\n');
  assert.ok(lines.length <= 120, `README.md has ${lines.length} lines`);
  assert.match(top, /^\s*npm run demo\b/m);
  assert.match(top, /^\s*npm test\b/m);
});

test('the top level holds the folders of the house and no others', () => {
  const house = [
    '.ci',
    '.github',
    'demo',
    'docs',
    'e2e',
    'findings',
    'infra',
    'libs',
    'load-tests',
    'services',
  ];
  const folders = new Set(
    files.filter(({ path }) => path.includes('/')).map(({ path }) => path.split('/')[0] ?? ''),
  );
  assert.deepEqual(
    [...folders].filter((folder) => !house.includes(folder)),
    [],
  );
});

test('no folder has a name that would fit anything', () => {
  const vague = /(^|\/)(common|shared|utils?|core|helpers?|types|misc|lib)\//;
  assert.deepEqual(
    pathsThat((path) => vague.test(path)),
    [],
  );
});

test('a file name is lower case, its words joined by dashes', () => {
  const named = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/;
  const wrong = sources.filter(({ path }) => !named.test(posix.basename(path)));
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  );
});

test('a project has two config files at most', () => {
  const config = /^(package|tsconfig.*|project|jest.*|\..*rc)\.json$|\.config\.[cm]?[jt]s$|^\..+/;
  for (const project of projects) {
    const own = files.filter(({ path }) => posix.dirname(path) === project);
    const names = own.map(({ path }) => posix.basename(path)).filter((name) => config.test(name));
    assert.ok(names.length <= 2, `${project}: ${names.join(', ')}`);
  }
});

test('every project has its tests as a target', () => {
  type Targets = { nx?: { targets?: Record<string, unknown> } };
  for (const project of projects) {
    const { nx } = JSON.parse(fileAt(`${project}/package.json`).text()) as Targets;
    const tested = project === 'e2e' ? ['test', 'promises'] : [testsOf(project)];
    const missing = tested.filter((target) => !(target in (nx?.targets ?? {})));
    assert.deepEqual(missing, [], `${project}/package.json: nx.targets`);
  }
});

test('every service has the same shape: main.ts and config.ts', () => {
  // The operators' commands are none: whatever looks at a system shares their settings.
  const shape = projects
    .filter((project) => project.startsWith('services/') && project !== 'services/operator')
    .flatMap((project) => [`${project}/main.ts`, `${project}/config.ts`]);
  assert.deepEqual(
    shape.filter((path) => !files.some((file) => file.path === path)),
    [],
  );
});

test('a lib has one index.ts, and there are no other barrels', () => {
  const doors = pathsThat((path) => posix.basename(path) === 'index.ts');
  assert.deepEqual(
    doors.filter(
      (path) =>
        !/^(libs\/((stores|providers)\/)?[^/]+(\/test)?|infra(\/[^/]+)?|demo|services\/operator|e2e\/test)\/index\.ts$/.test(
          path,
        ),
    ),
    [],
  );
});

/** A provider's e2e/ has promises alone. */
const testsOf = (project: string) => (project.endsWith('/e2e') ? 'promises' : 'test');

/** Whether a file is a project's, and of none that lies in it. */
const isOf = (project: string, path: string) =>
  path.startsWith(`${project}/`) &&
  !projects.some((other) => other.startsWith(`${project}/`) && path.startsWith(`${other}/`));

test('a project declares the libs that it imports', () => {
  for (const project of projects) {
    const declared = declaredBy(`${project}/package.json`);
    for (const { path, text } of sources.filter((file) => isOf(project, file.path))) {
      if (path.startsWith('infra/lint/')) continue;
      const imported = [...text().matchAll(/from '(@triplock\/[^'/]+)[^']*'/g)].map(
        ([, name]) => name,
      );
      const missing = imported.filter((name) => name !== undefined && !(name in declared));
      assert.deepEqual(missing, [], path);
    }
  }
});

test('what a product file imports is in dependencies, and what only tests import is not', () => {
  const ofTests = /\.test(ing)?\.ts$|\/test\/|\.conformance\.ts$|^libs\/testing\//;
  // `npm ci --omit=dev` makes the images of these.
  const ours = sources.filter(({ path }) => /^(services|libs|demo)\/.*\.ts$/.test(path));
  const importedBy = (some: typeof ours) =>
    new Set(
      some.flatMap(({ text }) =>
        [...text().matchAll(/(?:from |import\()'((?:@[\w-]+\/)?[\w-]+)(?![\w:-])/g)].map(
          ([, name]) => name!,
        ),
      ),
    );
  for (const project of projects) {
    const own = ours.filter(({ path }) => isOf(project, path));
    const product = importedBy(own.filter(({ path }) => !ofTests.test(path)));
    const tests = importedBy(own.filter(({ path }) => ofTests.test(path)));
    const { dependencies = {} } = manifestOf(`${project}/package.json`);
    const absent = [...product].filter((name) => !(name in dependencies));
    const onlyForTests = [...tests].filter((name) => name in dependencies && !product.has(name));
    if (project !== 'libs/testing') assert.deepEqual([absent, onlyForTests], [[], []], project);
  }
});

test('whatever a project exports is there', () => {
  const gone = projects.flatMap((project) => {
    const { exports = {} } = manifestOf(`${project}/package.json`);
    const paths = typeof exports === 'string' ? [exports] : Object.values(exports);
    return paths
      .map((path) => posix.join(project, path))
      .filter((path) => !files.some((file) => file.path === path));
  });
  assert.deepEqual(gone, []);
});

test('every path of the repository that a document names in code exists', () => {
  const known = new Set(files.flatMap(({ path }) => [path, ...foldersOf(path)]));
  const top = new Set([...known].map((path) => path.split('/')[0]!));
  const gone = documents.flatMap(({ path, text }) => {
    const prose = text().replaceAll(/^```[^]*?^```/gm, '');
    const named = [...prose.matchAll(/`([\w.@-]+(?:\/[\w.@-]+)+)\/?`/g)].map(([, name]) => name!);
    return named
      .filter((name) => top.has(name.split('/')[0]!) && !known.has(name))
      .map((name) => `${path}: ${name}`);
  });
  assert.deepEqual(gone, []);
});

test('every dependency is pinned to one version', () => {
  for (const manifest of [
    ...projects.map((project) => `${project}/package.json`),
    'package.json',
  ]) {
    const loose = Object.entries(declaredBy(manifest)).filter(
      ([name, version]) =>
        !name.startsWith('@triplock/') && !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
    );
    assert.deepEqual(loose, [], manifest);
  }
});

test('an atomic step in SQL or Lua opens with its contract', () => {
  const steps = sources.filter(({ path }) => /\.(sql|lua)$/.test(path));
  assert.deepEqual(
    steps.filter(({ text }) => !text().startsWith('--')).map(({ path }) => path),
    [],
  );
});

test('nobody here promises delivery without duplicates; only quotes of others do', () => {
  const promise = /exactly[\s/*#-]+once/i;
  const quotes = /"[^"\n]*"|“[^”]*”/g;
  const boasting = [...documents, ...sources].filter(({ text }) =>
    promise.test(text().replaceAll(quotes, '')),
  );
  assert.deepEqual(
    boasting.map(({ path }) => path),
    [],
  );
});

test('a comment is no wider than the code', () => {
  // Migrations that have run are never edited.
  const wide = sources
    .filter(({ path }) => !path.includes('/migrations/'))
    .flatMap(({ path, text }) => {
      const mark = /\.(sql|lua)$/.test(path) ? /^\s*--/ : /^\s*(\/\/|\/\*|\*)/;
      const lines = text().split('\n');
      return lines.filter((line) => line.length > 100 && mark.test(line)).map(() => path);
    });
  assert.deepEqual(wide, []);
});

test('what a file exports, or a statement does, somebody else uses', () => {
  // k6 finds its functions by the names in a scenario's options, Nx by those in executors.json; a
  // folder of checks or migrations is read whole.
  const readWhole = /^load-tests\/k6\/|\/(migrations|checks)\/|\/executors\.js$/;
  const namedStatement = /^-- name: (\w+)$/gm;
  const exported = /^export (?:async )?(?:function\*?|const|class) (\w+)/gm;
  const users = new Map<string, string[]>();
  for (const { path, text } of sources) {
    for (const word of new Set(text().match(/[\w-]+/g))) {
      const known = users.get(word);
      if (known === undefined) users.set(word, [path]);
      else known.push(path);
    }
  }
  const isUsed = (name: string, by: string) =>
    users.get(name)?.some((path) => path !== by) === true;
  const unused = sources
    .filter(({ path }) => !readWhole.test(path))
    .flatMap(({ path, text }) => {
      const { name, ext } = posix.parse(path);
      const statement = ext === '.sql' || ext === '.lua';
      const named = [...text().matchAll(statement ? namedStatement : exported)].map(
        ([, each]) => each!,
      );
      const names = statement && named.length === 0 ? [name] : named;
      return names.filter((each) => !isUsed(each, path)).map((each) => `${path}: ${each}`);
    });
  assert.deepEqual(unused, []);
});

test('nothing is left for later in the sources', () => {
  // In a comment: the code for no currency is three crosses too.
  const words = ['TO' + 'DO', 'FIX' + 'ME', 'XX' + 'X'].join('|');
  const mark = new RegExp(`(//|/\\*|^\\s*\\*|--).*\\b(${words})\\b`, 'm');
  assert.deepEqual(
    sources.filter(({ text }) => mark.test(text())).map(({ path }) => path),
    [],
  );
});

test('every link between documents leads somewhere', () => {
  for (const { path, text } of documents) {
    const targets = [...text().matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, to]) => to ?? '');
    const dead = targets
      .map((target) => posix.join(posix.dirname(path), target).replace(/\/$/, ''))
      .filter((target) => !files.some((file) => `${file.path}/`.startsWith(`${target}/`)));
    assert.deepEqual(dead, [], path);
  }
});

function pathsThat(holds: (path: string) => boolean): string[] {
  return files.map(({ path }) => path).filter(holds);
}

function fileAt(path: string): WorkspaceFile {
  const file = files.find((each) => each.path === path);
  assert.ok(file, `${path} is missing`);
  return file;
}

function declaredBy(manifest: string): Record<string, string> {
  const { dependencies, devDependencies } = manifestOf(manifest);
  return { ...dependencies, ...devDependencies };
}

function manifestOf(path: string): Manifest {
  return JSON.parse(fileAt(path).text()) as Manifest;
}

function foldersOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'));
}
