import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTree } from '@nx/devkit/testing';
import { RefusedName } from './names.ts';
import { rename } from './rename.ts';

function workspace() {
  const tree = createTree();
  tree.write('package.json', '{ "name": "triplock" }\n');
  tree.write('libs/claims/claims.ts', `import { claims } from '@triplock/launcher';\n`);
  tree.write('infra/triplock.mjs', 'export const TRIPLOCK_MODE = "Triplock";\n');
  return tree;
}

test('every spelling of the name changes, in texts and in paths', async () => {
  const tree = workspace();
  await rename(tree, { name: 'acme' });
  assert.match(tree.read('libs/claims/claims.ts', 'utf8')!, /@acme\/launcher/);
  assert.match(tree.read('infra/acme.mjs', 'utf8')!, /ACME_MODE = .Acme./);
  assert.equal(tree.exists('infra/triplock.mjs'), false);
});

test('a comment that a longer name made too wide is broken', async () => {
  const tree = workspace();
  const words = `${'word '.repeat(17)}triplock.`;
  tree.write('libs/claims/wide.ts', `// ${words}\nexport const one = 1;\n`);
  await rename(tree, { name: 'acmepaymentsandmore' });
  const lines = tree.read('libs/claims/wide.ts', 'utf8')!.trimEnd().split('\n');
  assert.ok(lines.every((line) => line.length <= 100));
  assert.match(lines[1]!, /^\/\/ .*acmepaymentsandmore\.$/);
});

test('what is no name, or taken, is refused and nothing is written', async () => {
  const refused = ['Acme', 'a', 'my-pay', 'class', 'claims', 'triplock', '7up'];
  for (const name of refused) {
    const tree = workspace();
    const before = tree.listChanges().length;
    await assert.rejects(rename(tree, { name }), RefusedName, name);
    assert.equal(tree.listChanges().length, before, name);
  }
});
