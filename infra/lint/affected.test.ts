import assert from 'node:assert/strict';
import { test } from 'node:test';
import { affectedIn } from './affected.ts';
import { readWorkspace } from './projects.ts';
import { root, type WorkspaceFile } from './workspace-files.ts';

const workspace = readWorkspace(root);
const texts: Readonly<Record<string, string>> = {
  'libs/payments/index.ts': "export { euro } from './money.ts';\n",
  'libs/payments/money.ts': 'export const euro = 100;\n',
  'libs/payments/money.test.ts': "import { euro } from './money.ts';\n",
  'libs/ledger/index.ts': "export const sql = new URL('./sql/post.sql', import.meta.url);\n",
  'libs/ledger/sql/post.sql': '-- posts',
  'libs/ledger/migrations/1.sql': '-- a table',
  'libs/ledger/README.md': '# Ledger',
  'libs/ledger/post.test.ts': "import { sql } from './index.ts';\n",
  'services/outbox-dispatcher/main.ts': "import { euro } from '@triplock/payments';\n",
  'services/outbox-dispatcher/some.test.ts': 'export {};\n',
  'services/auditor/audit.test.ts': "import { sql } from '@triplock/ledger';\n",
  'demo/demo.test.ts': "const text = read('services/outbox-dispatcher/main.ts');\n",
  'infra/lint/tidy.test.ts': 'export {};\n',
  'infra/launcher/index.ts': "const program = 'services/outbox-dispatcher/main.ts';\n",
  'infra/launcher/launcher.test.ts': "import { program } from './index.ts';\n",
  'libs/testing/index.ts': "export * from './parts.ts';\n",
  'libs/testing/parts.ts': 'export {};\n',
  'libs/inbox/inbox.test.ts': "import { testPart } from '@triplock/testing';\n",
  'libs/inbox/words.test.ts': 'export {};\n',
};

const files: WorkspaceFile[] = Object.entries(texts).map(([path, text]) => {
  return { path, text: () => text };
});

const affected = (...changed: string[]) => {
  const found = affectedIn(files, workspace, changed);
  const names = (some: (typeof found)['changed']) => some.flatMap(({ tests }) => tests);
  return { own: names(found.changed), others: names(found.dependent), of: found.ofNoProject };
};

const judgesAll = 'infra/lint/tidy.test.ts';

test('nothing changed, nothing to test', () => {
  assert.deepEqual(affected(), { own: [], others: [], of: [] });
});

test('a project that nobody imports has its own tests, and those that read its files', () => {
  assert.deepEqual(affected('services/outbox-dispatcher/main.ts'), {
    own: ['services/outbox-dispatcher/some.test.ts'],
    others: ['demo/demo.test.ts', judgesAll],
    of: [],
  });
});

test('what imports a change, around corners and by the name of a lib, is tested too', () => {
  assert.deepEqual(affected('libs/payments/money.ts'), {
    own: ['libs/payments/money.test.ts'],
    others: ['demo/demo.test.ts', judgesAll],
    of: [],
  });
});

test('a file that a source names is part of it; one that none names is of its whole project', () => {
  for (const path of ['libs/ledger/sql/post.sql', 'libs/ledger/migrations/1.sql']) {
    assert.deepEqual(affected(path), {
      own: ['libs/ledger/post.test.ts'],
      others: [judgesAll, 'services/auditor/audit.test.ts'],
      of: [],
    });
  }
});

test('a file that is gone concerns the tests of its project', () => {
  const left = files.filter(({ path }) => path !== 'libs/payments/money.ts');
  const { changed } = affectedIn(left, workspace, ['libs/payments/money.ts']);
  assert.deepEqual(changed, [
    { project: '@triplock/payments', tests: ['libs/payments/money.test.ts'] },
  ]);
});

test('a test asks for real parts only if it can reach them', () => {
  const { changed, onParts } = affectedIn(files, workspace, ['libs/inbox/package.json']);
  assert.equal(changed[0]?.tests.length, 2);
  assert.deepEqual([...onParts], ['libs/inbox/inbox.test.ts']);
});

test('a page concerns only what judges everything, and a file of no project is named', () => {
  assert.deepEqual(affected('libs/ledger/README.md'), { own: [], others: [judgesAll], of: [] });
  assert.deepEqual(affected('package-lock.json', 'README.md'), {
    own: [],
    others: [judgesAll],
    of: ['package-lock.json'],
  });
});
