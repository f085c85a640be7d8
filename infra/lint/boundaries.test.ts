import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lintExamples, type Example } from './lint-example.ts';

type Kind =
  | 'domain'
  | 'contract'
  | 'kit'
  | 'adapter'
  | 'store'
  | 'wiring'
  | 'inspect'
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
const ofInspect: readonly Kind[] = [...libs, 'inspect'];
const outside: readonly Kind[] = [...ofInspect, 'testing', 'infra'];
const mayInTests: readonly Kind[] = ['testing'];

/** The house's table a second time, on purpose: the rule's own copy is what is being tested. */
const house: Record<Kind, Row> = {
  domain: { folder: 'libs/payments', may: [], mayInTests: [] },
  contract: { folder: 'libs/contracts', may: ['domain'], mayInTests: [] },
  kit: { folder: 'libs/postgres', may: ['kit'], mayInTests: [] },
  adapter: { folder: 'libs/claims', may: inner, mayInTests },
  store: { folder: 'libs/once', may: [...inner, 'adapter', 'store'], mayInTests },
  wiring: { folder: 'libs/consumer', may: [...inner, 'adapter', 'store'], mayInTests },
  inspect: { folder: 'libs/inspect', may: libs, mayInTests },
  testing: { folder: 'libs/testing', may: [...inner, 'store'], mayInTests: [] },
  service: { folder: 'services/ingest-gateway', may: ofInspect, mayInTests },
  operator: { folder: 'services/operator', may: ofInspect, mayInTests },
  infra: {
    folder: 'infra/observability',
    may: [...outside, 'operator', 'service'],
    mayInTests: [],
  },
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
  inspect: '@triplock/inspect',
  testing: '@triplock/testing',
  service: '@triplock/auditor/service',
  operator: '@triplock/operator',
  infra: '@triplock/launcher',
  demo: '@triplock/demo',
  e2e: '@triplock/e2e/test',
  'load-tests': '@triplock/load-tests/systems.ts',
};

const kinds = Object.keys(house) as Kind[];
const ofOneProject: readonly Kind[] = [
  'domain',
  'contract',
  'inspect',
  'testing',
  'operator',
  'demo',
  'e2e',
  'load-tests',
];
const arrows = kinds
  .flatMap((from) => kinds.map((to) => ({ from, to })))
  .filter(({ from, to }) => from !== to || !ofOneProject.includes(from));

const examples: Example[] = [];

const judgedArrows = arrows.map(({ from, to }) => {
  const { folder, may, mayInTests } = house[from];
  const allowed = may.includes(to);
  return {
    name: `${from} → ${to}`,
    source: anImportOf(doors[to], `${folder}/of-${to}.ts`),
    allowed,
    inATest: anImportOf(doors[to], `${folder}/of-${to}.test.ts`),
    allowedInATest: allowed || mayInTests.includes(to),
  };
});

const refusedForms = [
  "import type { Ledger } from '@triplock/ledger';\nexport type Own = Ledger;\n",
  "export const ledger = await import('@triplock/ledger');\n",
  "export { openPostgresLedger } from '@triplock/ledger';\n",
  "export type Own = import('@triplock/ledger').Ledger;\n",
].map((text, n) => example({ path: `libs/claims/form-${n}.ts`, text }));

const backwards = anImportOf('@triplock/contracts', 'libs/payments/backwards.ts');
const forwards = anImportOf('@triplock/payments', 'libs/contracts/forwards.ts');

const across = [
  '../payments/money.ts',
  '../../services/auditor/main.ts',
  '../../infra/launcher/home.ts',
].map((path, n) => anImportOf(path, `libs/claims/across-${n}.ts`));
const within = anImportOf('../claims.ts', 'libs/claims/redis/within.ts');
const byOwnName = anImportOf('@triplock/claims', 'libs/claims/by-own-name.ts');

const undeclared = anImportOf('fastify', 'services/ledger-worker/undeclared.ts');
const declared = anImportOf('fastify', 'services/ingest-gateway/declared.ts');
const declaredTypes = anImportOf('k6/execution', 'load-tests/k6/declared-types.ts');

const packageInDomain = anImportOf('fast-check', 'libs/payments/package.ts');
const packageInItsTests = anImportOf('fast-check', 'libs/payments/package.test.ts');
const otherInItsTests = anImportOf('fastify', 'libs/payments/other.test.ts');

const found = await lintExamples(examples);
const houseRules = (one: Example) => found.get(one)!.filter((rule) => rule.startsWith('house/'));

for (const { name, source, allowed, inATest, allowedInATest } of judgedArrows) {
  const verdict = (isAllowed: boolean) => (isAllowed ? 'allowed' : 'refused');

  test(`${name} is ${verdict(allowed)}`, () => {
    assert.equal(houseRules(source).includes('house/may-import'), !allowed);
  });

  test(`${name} is ${verdict(allowedInATest)} in a test`, () => {
    assert.equal(houseRules(inATest).includes('house/may-import'), !allowedInATest);
  });
}

test('what an arrow allows no other rule of ours refuses', () => {
  for (const { source, allowed, inATest, allowedInATest } of judgedArrows) {
    // Two of the arrows that are allowed between kinds lead to a project that leads back.
    const rest = (one: Example) => houseRules(one).filter((rule) => rule !== 'house/one-way');
    if (allowed && !source.text.includes('/service')) assert.deepEqual(rest(source), []);
    if (allowedInATest) assert.deepEqual(rest(inATest), []);
  }
});

test('an arrow is refused also as an import of types, a dynamic import, or a re-export', () => {
  for (const form of refusedForms) {
    assert.ok(houseRules(form).includes('house/may-import'), form.text);
  }
});

test('two projects that import each other are refused, and one of them is not', () => {
  assert.deepEqual(houseRules(backwards).sort(), ['house/may-import', 'house/one-way']);
  assert.deepEqual(houseRules(forwards), []);
});

test("another project's files are refused by a relative path, and its own by their name", () => {
  for (const one of [...across, byOwnName]) {
    assert.deepEqual(houseRules(one), ['house/by-name'], one.text);
  }
  assert.deepEqual(houseRules(within), []);
});

test('a package is imported only where it is declared', () => {
  assert.deepEqual(houseRules(undeclared), ['house/declared-packages']);
  assert.deepEqual(houseRules(declared), []);
  assert.deepEqual(houseRules(declaredTypes), []);
});

test('the domain takes no package, and its tests take the one that makes their examples', () => {
  assert.deepEqual(houseRules(packageInDomain), ['house/bare-domain']);
  assert.deepEqual(houseRules(packageInItsTests), []);
  assert.ok(houseRules(otherInItsTests).includes('house/bare-domain'));
});

function anImportOf(specifier: string, path: string): Example {
  const text = `import * as other from '${specifier}';\nexport const own = other;\n`;
  return example({ path, text });
}

/** Notes an example: all are linted at once. */
function example(one: Example): Example {
  examples.push(one);
  return one;
}
