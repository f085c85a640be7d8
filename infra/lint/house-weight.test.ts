import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findCircles, findDust, findParts, limits, weighHouse } from './house-weight.ts';
import type { WorkspaceFile } from './workspace-files.ts';

const fileOf = (path: string, ...lines: string[]): WorkspaceFile => {
  return { path, text: () => lines.join('\n') };
};

test('the house is no heavier than it may be', () => {
  const weight = weighHouse();
  for (const [what, most] of Object.entries(limits)) {
    const found = weight[what as keyof typeof limits];
    assert.ok(
      found <= most,
      `${what}: ${found}, at most ${most}; node infra/lint/house-weight.ts --all names them`,
    );
  }
});

test('files that import each other are a circle, by a type and around a corner too', () => {
  const circle = [
    fileOf('libs/a/one.ts', `import { two } from './two.ts';`),
    fileOf('libs/a/two.ts', `import type { Three } from './sql/three.ts';`),
    fileOf('libs/a/sql/three.ts', `export { one } from '../one.ts';`),
  ];
  const beside = fileOf('libs/a/beside.ts', `import { one } from './one.ts';`);
  assert.deepEqual(findCircles([...circle, beside]), [
    ['libs/a/one.ts', 'libs/a/sql/three.ts', 'libs/a/two.ts'],
  ]);
  assert.deepEqual(findCircles([beside, ...circle.slice(0, 2)]), []);
});

test('a file of thirty lines is dust unless it is a barrel, and a bag of parts is found', () => {
  const lines = (count: number) => Array.from({ length: count }, (_, n) => `line ${n}`);
  const files = [
    fileOf('libs/a/short.ts', ...lines(30)),
    fileOf('libs/a/enough.ts', ...lines(31)),
    fileOf('libs/a/index.ts', `export { a } from './a.ts';`),
    fileOf('libs/a/server.ts', 'export type ServerParts = { a: 1 };'),
  ];
  assert.deepEqual(findDust(files.slice(0, 3)), ['libs/a/short.ts']);
  assert.deepEqual(findParts(files), ['libs/a/server.ts: ServerParts']);
});
