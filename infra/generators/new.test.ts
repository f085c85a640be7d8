import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tree } from '@nx/devkit';
import { createTree } from '@nx/devkit/testing';
import { consumer } from './consumer.ts';
import { LostAnchor } from './insertions.ts';
import { RefusedName } from './names.ts';
import { rename } from './rename.ts';
import { service } from './service.ts';

const root = join(import.meta.dirname, '../..');

/** This repository as it is. Only Nx's command writes a tree to the disk, so nothing changes. */
function repository(): Tree {
  // Nx exports no other way to it: a tree of a folder, which `createTree` makes of none.
  const FolderTree = createTree().constructor as new (root: string, isVerbose: boolean) => Tree;
  return new FolderTree(root, false);
}

/** The files that a generator wrote or changed, by path. */
async function written(tree: Tree, act: () => Promise<unknown>): Promise<Map<string, string>> {
  const textsOf = () =>
    new Map(tree.listChanges().map(({ path, content }) => [path, content?.toString() ?? '']));
  const before = textsOf();
  await act();
  return new Map([...textsOf()].filter(([path, text]) => before.get(path) !== text));
}

for (const [kind, generate] of Object.entries({ consumer, service })) {
  test(`a ${kind} is written and listed wherever a service has to be named, twice in a row`, async () => {
    const tree = repository();
    for (const name of ['loyalty', 'invoices']) {
      const files = await written(tree, () => generate(tree, { name }));
      for (const file of ['package.json', 'service.ts', 'config.ts', 'main.ts', 'main.test.ts'])
        assert.ok(files.has(`services/${name}/${file}`), file);
      const listing = files.get('infra/launcher/services.ts')!;
      assert.match(listing, new RegExp(`  ${name},\\n  auditor,\\n`));
      for (const [path, text] of files) assert.match(path + text, new RegExp(name), path);
      assert.doesNotMatch([...files.values()].join('\n'), /<%/);
    }
    const portOf = (name: string) =>
      /usual: (\d+_\d+)/.exec(tree.read(`services/${name}/service.ts`, 'utf8')!)![1];
    assert.notEqual(portOf('loyalty'), portOf('invoices'));
  });

  test(`a name that is none or is taken makes no ${kind}, and nothing is written`, async () => {
    const tree = repository();
    const refused = ['Loyalty', 'l', 'my_points', 'class', 'ledger', 'refunds', '7up', 'a--b', ''];
    for (const name of refused) {
      const files = await written(tree, () =>
        assert.rejects(generate(tree, { name }), RefusedName, name),
      );
      assert.deepEqual([...files.keys()], [], name);
    }
  });

  test(`a file that reads otherwise is named, and no ${kind} is listed`, async () => {
    const tree = repository();
    tree.write('infra/launcher/services.ts', 'export const pipeline = [];\n');
    const naming = (error: Error) =>
      error instanceof LostAnchor && error.message.startsWith('infra/launcher/services.ts has no');
    await assert.rejects(generate(tree, { name: 'loyalty' }), naming);
  });
}

test('a word of SQL makes no consumer', async () => {
  for (const name of ['order', 'user', 'grant']) {
    const tree = repository();
    await assert.rejects(consumer(tree, { name }), RefusedName, name);
  }
});

test('a kind that there is not is refused, with those that there are', () => {
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [join(import.meta.dirname, 'new.ts'), ...words], {
      encoding: 'utf8',
    });
  const unknown = run('pipeline', 'loyalty');
  assert.equal(unknown.status, 2, unknown.stderr);
  assert.match(unknown.stderr, /'pipeline' is no kind: it takes one of consumer/);
  assert.match(run('consumer').stderr, /a name is missing: npm run new -- consumer NAME/);
});

/** A clone of which every kind of place has the name. */
function aClone() {
  const tree = createTree();
  tree.write('package.json', '{ "name": "triplock" }\n');
  tree.write('libs/claims/claims.ts', `import { claims } from '@triplock/launcher';\n`);
  tree.write('infra/triplock.mjs', 'export const TRIPLOCK_MODE = "Triplock";\n');
  return tree;
}

test('every spelling of the name changes, in texts and in paths', async () => {
  const tree = aClone();
  await rename(tree, { name: 'acme' });
  assert.match(tree.read('libs/claims/claims.ts', 'utf8')!, /@acme\/launcher/);
  assert.match(tree.read('infra/acme.mjs', 'utf8')!, /ACME_MODE = .Acme./);
  assert.equal(tree.exists('infra/triplock.mjs'), false);
});

test('a comment that a longer name made too wide is broken', async () => {
  const tree = aClone();
  const words = `${'word '.repeat(17)}triplock.`;
  tree.write('libs/claims/wide.ts', `// ${words}\nexport const one = 1;\n`);
  await rename(tree, { name: 'acmepaymentsandmore' });
  const lines = tree.read('libs/claims/wide.ts', 'utf8')!.trimEnd().split('\n');
  assert.ok(lines.every((line) => line.length <= 100));
  assert.match(lines[1]!, /^\/\/ .*acmepaymentsandmore\.$/);
});

test('what is no name for a fork, or taken, is refused and nothing is written', async () => {
  const refused = ['Acme', 'a', 'my-pay', 'class', 'claims', 'triplock', '7up'];
  for (const name of refused) {
    const tree = aClone();
    const before = tree.listChanges().length;
    await assert.rejects(rename(tree, { name }), RefusedName, name);
    assert.equal(tree.listChanges().length, before, name);
  }
});
