import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { lintArrow, lintExample } from './lint-example.ts';
import { root } from './workspace-files.ts';

type Kind =
  | 'domain'
  | 'contract'
  | 'kit'
  | 'adapter'
  | 'store'
  | 'wiring'
  | 'testing'
  | 'service'
  | 'operator'
  | 'infra'
  | 'demo'
  | 'e2e'
  | 'load-tests';
type Row = { folder: string; may: readonly Kind[]; mayInTests: readonly Kind[] };

const inner: readonly Kind[] = ['domain', 'contract', 'kit'];
const libs: readonly Kind[] = [...inner, 'adapter', 'store', 'wiring'];
const outside: readonly Kind[] = [...libs, 'testing', 'operator', 'infra'];
const mayInTests: readonly Kind[] = ['testing'];

/** The house's table a second time, on purpose: the rule's own copy is what is being tested. */
const house: Record<Kind, Row> = {
  domain: { folder: 'libs/payments', may: [], mayInTests: [] },
  contract: { folder: 'libs/contracts', may: ['domain'], mayInTests: [] },
  kit: { folder: 'libs/postgres', may: ['kit'], mayInTests: [] },
  adapter: { folder: 'libs/claims', may: inner, mayInTests },
  store: { folder: 'libs/once', may: [...inner, 'adapter', 'store'], mayInTests },
  wiring: { folder: 'libs/consumer', may: [...inner, 'adapter', 'store'], mayInTests },
  testing: { folder: 'libs/testing', may: [...inner, 'store'], mayInTests: [] },
  service: { folder: 'services/ingest-gateway', may: libs, mayInTests },
  operator: { folder: 'services/operator', may: libs, mayInTests },
  infra: { folder: 'infra/observability', may: [...outside, 'service'], mayInTests: [] },
  demo: { folder: 'demo', may: outside, mayInTests: [] },
  e2e: { folder: 'e2e', may: [...outside, 'demo'], mayInTests: [] },
  'load-tests': { folder: 'load-tests', may: [...outside, 'demo'], mayInTests: [] },
};

/** One that others would import; not the project of `house`, where a kind has several. */
const doors: Record<Kind, string> = {
  domain: '@triplock/payments',
  contract: '@triplock/contracts',
  kit: '@triplock/runtime',
  adapter: '@triplock/ledger',
  store: '@triplock/claims-postgres',
  wiring: '@triplock/ledgers',
  testing: '@triplock/testing',
  service: '@triplock/auditor/service',
  operator: '@triplock/operator',
  infra: '@triplock/launcher',
  demo: '@triplock/demo',
  e2e: '@triplock/e2e/storms.ts',
  'load-tests': '@triplock/load-tests/systems.ts',
};

const kinds = Object.keys(house) as Kind[];
const ofOneProject: readonly Kind[] = [
  'domain',
  'contract',
  'testing',
  'operator',
  'demo',
  'e2e',
  'load-tests',
];
const arrows = kinds
  .flatMap((from) => kinds.map((to) => ({ from, to })))
  .filter(({ from, to }) => from !== to || !ofOneProject.includes(from));

for (const { from, to } of arrows) {
  const { folder, may, mayInTests } = house[from];
  const allowed = may.includes(to);
  const allowedInTests = allowed || mayInTests.includes(to);

  test(`${from} → ${to} is ${allowed ? 'allowed' : 'refused'}`, async () => {
    const errors = await lintArrow(`${folder}/example.ts`, anImportOf(doors[to]));
    assertArrow(errors, allowed);
  });

  test(`${from} → ${to} is ${allowedInTests ? 'allowed' : 'refused'} in a test`, async () => {
    const errors = await lintArrow(`${folder}/example.test.ts`, anImportOf(doors[to]));
    assertArrow(errors, allowedInTests);
  });
}

test('an arrow is refused also as an import of types, a dynamic import, or a re-export', async () => {
  const texts = [
    "import type { Ledger } from '@triplock/ledger';\nexport type Own = Ledger;\n",
    "export const ledger = await import('@triplock/ledger');\n",
    "export { openPostgresLedger } from '@triplock/ledger';\n",
  ];
  for (const text of texts) {
    const errors = await lintArrow('libs/claims/index.ts', text);
    assertArrow(errors, false);
  }
});

test('two projects that import each other are refused as a cycle', async () => {
  const errors = await lintExample('libs/payments/example.ts', anImportOf('@triplock/contracts'));
  assert.deepEqual(errors, ['@nx/enforce-module-boundaries noCircularDependencies']);
});

test("another project's files are refused by a relative path", async () => {
  for (const path of [
    '../payments/money.ts',
    '../../services/auditor/main.ts',
    '../../infra/launcher/home.ts',
  ]) {
    const errors = await lintExample('libs/claims/example.ts', anImportOf(path));
    assert.deepEqual(errors, [
      '@nx/enforce-module-boundaries noRelativeOrAbsoluteImportsAcrossLibraries',
    ]);
  }
});

test('without a project graph lint fails instead of letting every arrow pass', async (t) => {
  const empty = await mkdtemp(join(tmpdir(), 'no-graph-'));
  t.after(() => rm(empty, { recursive: true }));
  const env = { ...process.env, NX_WORKSPACE_DATA_DIRECTORY: empty, NX_CLI_SET: 'true' };
  const eslint = ['node_modules/eslint/bin/eslint.js', 'libs/payments/index.ts'];
  const exitCode = await new Promise<unknown>((resolve) => {
    execFile(process.execPath, eslint, { cwd: root, env }, (error) => resolve(error?.code));
  });
  assert.equal(exitCode, 2);
});

function anImportOf(specifier: string): string {
  return `import * as other from '${specifier}';\nexport const own = other;\n`;
}

function assertArrow(errors: readonly string[], allowed: boolean): void {
  if (allowed) return assert.deepEqual(errors, []);
  const [arrow, ...others] = errors;
  assert.match(
    arrow ?? '',
    /^@nx\/enforce-module-boundaries ((onlyTags|emptyOnlyTags)ConstraintViolation|noImportsOfApps)$/,
  );
  // What exports nothing has no door, and its file is refused besides.
  assert.ok(
    others.every((each) => each.startsWith('house/')),
    errors.join('\n'),
  );
}
