import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lintExamples, type Example } from './lint-example.ts';

const service = 'services/ledger-worker/example.ts';
const adapter = 'libs/ledger/example.ts';
const domain = 'libs/payments/example.ts';
const aTest = 'services/ledger-worker/example.test.ts';

/** A rule, texts that it must report, and near misses that it must not. */
const habits: { rule: string; refused: readonly Example[]; allowed: readonly Example[] }[] = [
  {
    rule: 'house/drivers-in-adapters',
    refused: [
      ...[
        'ioredis',
        'kafkajs',
        '@platformatic/kafka',
        'pg',
        '@google-cloud/pubsub',
        'stripe',
      ].flatMap((driver) => [
        { path: service, text: importing(driver) },
        { path: 'services/ledger-worker/example.test.ts', text: importing(driver) },
        { path: 'libs/runtime/example.ts', text: importing(driver) },
        { path: 'libs/contracts/example.ts', text: importing(driver) },
      ]),
      { path: service, text: "export const redis = await import('ioredis');\n" },
      { path: service, text: "import type { Pool } from 'pg';\nexport type Own = Pool;\n" },
    ],
    allowed: [
      { path: 'libs/claims/example.ts', text: importing('ioredis') },
      { path: 'libs/transport/example.ts', text: importing('kafkajs') },
      { path: 'libs/postgres/example.ts', text: importing('pg') },
      { path: 'e2e/example.test.ts', text: importing('kafkajs') },
    ],
  },
  {
    rule: 'house/settings-in-config',
    refused: [
      { path: service, text: 'export const url = process.env.REDIS_URL;\n' },
      { path: service, text: "export const url = process['env'].REDIS_URL;\n" },
      { path: adapter, text: 'export const { env } = process;\n' },
      { path: adapter, text: "import { env } from 'node:process';\nexport const own = env;\n" },
      { path: aTest, text: 'export const url = process.env.REDIS_URL;\n' },
    ],
    allowed: [
      {
        path: 'services/ledger-worker/config.ts',
        text: 'export const url = process.env.REDIS_URL;\n',
      },
      { path: 'infra/example.ts', text: 'export const home = process.env.HOME;\n' },
      { path: service, text: 'export const id = process.pid;\n' },
    ],
  },
  {
    rule: 'house/named-exports',
    refused: [
      { path: service, text: 'export default 1;\n' },
      { path: service, text: 'const one = 1;\nexport { one as default };\n' },
      { path: 'e2e/example.test.ts', text: 'export default function run() {}\n' },
    ],
    allowed: [{ path: service, text: 'export const one = 1;\n' }],
  },
  {
    rule: 'house/plain-properties',
    refused: [
      { path: service, text: 'export const both = { one: 1, ...{ two: 2, three: 3 } };\n' },
    ],
    allowed: [
      {
        path: service,
        text: 'const two = { two: 2 };\nexport const both = { one: 1, ...two, ...(two && { three: 3 }) };\n',
      },
    ],
  },
  {
    rule: 'house/one-barrel',
    refused: [{ path: service, text: "export { settle } from './settle.ts';\n" }],
    allowed: [{ path: 'libs/ledger/index.ts', text: "export * from './ledger.ts';\n" }],
  },
  {
    rule: 'house/one-door',
    refused: [{ path: service, text: importing('@triplock/ledger/postgres/post.ts') }],
    allowed: [{ path: service, text: importing('@triplock/ledger') }],
  },
  {
    rule: 'house/one-door',
    refused: [{ path: service, text: importing('@triplock/claims/conformance') }],
    allowed: [],
  },
  {
    rule: 'house/doors-for-tests',
    refused: [{ path: aTest, text: importing('@triplock/ledger/postgres/post.ts') }],
    allowed: [
      { path: aTest, text: importing('@triplock/claims/conformance') },
      { path: aTest, text: importing('@triplock/claims/test') },
    ],
  },
  {
    rule: 'house/node-protocol',
    refused: [
      { path: service, text: importing('fs') },
      { path: adapter, text: importing('fs/promises') },
    ],
    allowed: [{ path: service, text: importing('node:fs') }],
  },
  {
    rule: 'house/pure-domain',
    refused: [{ path: domain, text: importing('node:fs') }],
    allowed: [
      { path: domain, text: importing('node:crypto') },
      { path: 'libs/payments/example.test.ts', text: importing('node:test') },
    ],
  },
  {
    rule: 'house/no-sleeping-tests',
    refused: [
      { path: aTest, text: importing('node:timers/promises') },
      { path: aTest, text: 'await new Promise((done) => setTimeout(done, 100));\n' },
    ],
    allowed: [
      { path: service, text: 'await new Promise((done) => setTimeout(done, 100));\n' },
      { path: aTest, text: 'export const cancel = setTimeout(() => {}, 100);\n' },
    ],
  },
  {
    rule: 'max-params',
    refused: [{ path: service, text: 'export const sum = (a, b, c, d, e) => [a, b, c, d, e];\n' }],
    allowed: [{ path: service, text: 'export const sum = (a, b, c, d) => [a, b, c, d];\n' }],
  },
  {
    rule: 'eqeqeq',
    refused: [{ path: service, text: 'export const is = (a: unknown) => a == 1;\n' }],
    allowed: [{ path: service, text: 'export const is = (a: unknown) => a == null;\n' }],
  },
  {
    rule: 'no-use-before-define',
    refused: [
      {
        path: 'services/ledger-worker/main.ts',
        text: 'await run();\nfunction run() {\n  return later;\n}\nconst later = 1;\n',
      },
    ],
    allowed: [
      {
        path: 'services/auditor/main.ts',
        text: 'const before = 1;\nawait run();\nfunction run() {\n  return before;\n}\n',
      },
      { path: service, text: 'export const run = () => later;\nconst later = 1;\n' },
    ],
  },
  {
    rule: 'unused-directive',
    refused: [
      { path: service, text: '// oxlint-disable-next-line no-console\nexport const a = 1;\n' },
    ],
    allowed: [
      { path: service, text: "// oxlint-disable-next-line no-console\nconsole.log('a');\n" },
    ],
  },
  {
    rule: 'no-console',
    refused: [{ path: service, text: "console.log('secret');\n" }],
    allowed: [{ path: 'demo/example.ts', text: "console.log('a step of the story');\n" }],
  },
];

const found = await lintExamples(
  habits.flatMap(({ refused, allowed }) => [...refused, ...allowed]),
);

for (const { rule, refused, allowed } of habits) {
  test(`${rule} reports each broken example`, () => {
    for (const one of refused) assert.deepEqual(onlyOf(rule, one), [rule], textOf(one));
  });

  test(`${rule} lets the near misses pass`, () => {
    for (const one of allowed) assert.deepEqual(onlyOf(rule, one), [], textOf(one));
  });
}

function importing(specifier: string): string {
  return `import * as other from '${specifier}';\nexport const own = other;\n`;
}

function onlyOf(rule: string, example: Example): string[] {
  return found.get(example)!.filter((each) => each === rule);
}

function textOf({ path, text }: Example): string {
  return `${path}:\n${text}`;
}
