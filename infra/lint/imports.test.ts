import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findCircles, fingerprints, reaching, readImports } from './imports.ts';
import { readWorkspace } from './projects.ts';
import { root, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

const nobody = { byName: new Map() };

test('no two files import each other, around corners and by types too', () => {
  const circles = findCircles(readImports(workspaceFiles(), readWorkspace(root)));
  assert.deepEqual(circles, []);
});

test('files that import each other are a circle, by a type and around a corner too', () => {
  const circle = [
    fileOf('libs/a/one.ts', `import { two } from './two.ts';`),
    fileOf('libs/a/two.ts', `import type { Three } from './sql/three.ts';`),
    fileOf('libs/a/sql/three.ts', `export { one } from '../one.ts';`),
  ];
  const beside = fileOf('libs/a/beside.ts', `import { one } from './one.ts';`);
  assert.deepEqual(findCircles(readImports([...circle, beside], nobody)), [
    ['libs/a/one.ts', 'libs/a/sql/three.ts', 'libs/a/two.ts'],
  ]);
  assert.deepEqual(findCircles(readImports([beside, ...circle.slice(0, 2)], nobody)), []);
});

test('who imports a file is found through every form of import, and through a lib by its name', () => {
  const workspace = readWorkspace(root);
  const files = [
    fileOf('libs/payments/index.ts', `export * from './money.ts';`),
    fileOf('libs/payments/money.ts', 'export const one = 1;'),
    fileOf('libs/payments/data.json', '{}'),
    fileOf('demo/static.ts', `import {\n  one,\n} from '@triplock/payments';`),
    fileOf('demo/lazy.ts', `const later = import('./static.ts');`),
    fileOf('demo/typed.ts', `type Lazy = typeof import('./lazy.ts');`),
    fileOf('demo/effect.ts', `import './typed.ts';`),
    fileOf('demo/other.ts', `import data from '../libs/payments/data.json' with { type: 'json' };`),
  ];
  const graph = readImports(files, workspace);
  assert.deepEqual([...reaching(graph, ['libs/payments/money.ts'])].sort(), [
    'demo/effect.ts',
    'demo/lazy.ts',
    'demo/static.ts',
    'demo/typed.ts',
    'libs/payments/index.ts',
    'libs/payments/money.ts',
  ]);
  assert.deepEqual(
    [...reaching(graph, ['libs/payments/data.json'])],
    ['libs/payments/data.json', 'demo/other.ts'],
  );
});

test('a fingerprint changes with every file that is reached, and with no other', () => {
  const before = { 'a.ts': `import './b.ts';`, 'b.ts': `import './c.ts';`, 'c.ts': '', 'd.ts': '' };
  const of = (texts: Record<string, string>) => {
    const files = Object.entries(texts).map(([path, text]) => fileOf(path, text));
    return fingerprints(readImports(files, nobody), (path) => texts[path])('a.ts');
  };
  const same = of(before);
  assert.equal(of({ ...before, 'd.ts': '1;' }), same);
  for (const path of ['a.ts', 'b.ts', 'c.ts'] as const) {
    assert.notEqual(of({ ...before, [path]: `${before[path]} 1;` }), same, path);
  }
  assert.notEqual(of({ 'a.ts': before['a.ts'], 'b.ts': before['b.ts'] }), same);
});

function fileOf(path: string, text: string): WorkspaceFile {
  return { path, text: () => text };
}
