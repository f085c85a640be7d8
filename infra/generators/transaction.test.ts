import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { Tree } from '@nx/devkit';
import { createTree } from '@nx/devkit/testing';
import { LostAnchor } from './insertions.ts';
import { RefusedName } from './names.ts';
import { transaction } from './transaction.ts';

const root = join(import.meta.dirname, '../..');

/** The files that lines go into, as they are in this repository. */
const edited = [
  'libs/payments/identity.ts',
  'libs/payments/money.ts',
  'libs/contracts/index.ts',
  'libs/contracts/kafka/accepted-record.ts',
  'services/ingest-gateway/http/openapi.ts',
  'services/ingest-gateway/routes/gateway-routes.ts',
  'services/ingest-gateway/routes/every-route-claims.test.ts',
  'services/ingest-gateway/routes/scoping.test.ts',
  'services/settlement-feed/settlement-batches.ts',
  'services/auditor/checks/ledger.sql',
  'docs/observability.md',
  'demo/scenarios/all.ts',
  'demo/run-scenario.test.ts',
];

function workspace(): Tree {
  const tree = createTree();
  // Anchors are text as it is formatted here.
  tree.write('.prettierrc', '{ "singleQuote": true, "printWidth": 100 }\n');
  for (const file of edited) tree.write(file, readFileSync(join(root, file)));
  return tree;
}

const written = (tree: Tree) => tree.listChanges().map(({ path }) => path);

test('a kind is one more word in every list, beside those that are there', async () => {
  const tree = workspace();
  await transaction(tree, { name: 'tryone' });
  await transaction(tree, { name: 'trytwo' });
  const identity = tree.read('libs/payments/identity.ts', 'utf8')!;
  assert.match(identity, /paymentKinds = \['payment', .*'tryone', 'trytwo'\] as const/);
  assert.match(identity, /'tryone\.failed',\s+'trytwo\.succeeded'/);
  assert.match(tree.read('libs/payments/money.ts', 'utf8')!, /case 'tryone':[^]+case 'trytwo':/);
  const checks = tree.read('services/auditor/checks/ledger.sql', 'utf8')!;
  assert.equal(checks.match(/WHEN 'tryone' THEN transactions\.partner_id/g)?.length, 2);
});

test('its own files speak of nothing but it', async () => {
  const tree = workspace();
  const before = written(tree);
  await transaction(tree, { name: 'tryone' });
  const files = written(tree).filter((path) => !before.includes(path));
  assert.deepEqual(files.sort(), [
    'demo/scenarios/tryones.ts',
    'libs/contracts/http/tryone.test.ts',
    'libs/contracts/http/tryone.ts',
    'services/auditor/tryones.test.ts',
    'services/ingest-gateway/routes/tryones.test.ts',
    'services/ingest-gateway/routes/tryones.ts',
    'services/ledger-worker/tryones.test.ts',
  ]);
  for (const file of files) {
    const text = tree.read(file, 'utf8')!;
    assert.doesNotMatch(text, /<%|__name__/, file);
    for (const [, path] of text.matchAll(/from '(\.[^']+)'/g)) {
      const imported = join(dirname(file), path!);
      assert.ok(tree.exists(imported) || existsSync(join(root, imported)), `${file}: ${path}`);
    }
  }
});

test('a file in which it is not clear where a line belongs is named', async () => {
  for (const file of edited) {
    const tree = workspace();
    tree.write(file, '// somebody else was here\n');
    await assert.rejects(transaction(tree, { name: 'tryone' }), (error) => {
      return error instanceof LostAnchor && error.message.startsWith(`${file} has no `);
    });
  }
});

test('what is no noun, or taken, is refused and nothing is written', async () => {
  for (const name of ['Payout', 'pay-out', 'withdrawing', 'x', 'class', 'identity', 'demo']) {
    const tree = workspace();
    const before = written(tree).length;
    await assert.rejects(transaction(tree, { name }), RefusedName, name);
    assert.equal(written(tree).length, before, name);
  }
});
