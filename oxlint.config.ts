import { fileURLToPath } from 'node:url';
import { defineConfig } from 'oxlint';
import { driverHomes, environmentHomes, testFiles } from './infra/lint/boundaries.ts';
import {
  javaScriptRules,
  laxInTests,
  syntaxRules,
  typeRules,
  typeScriptRules,
} from './infra/lint/field-rules.ts';

const entryFiles = [
  'services/*/main.ts',
  'infra/generators/{generate,new}.ts',
  'infra/launcher/commands/*.ts',
  'demo/{scenario,main,saga}.ts',
  'e2e/{journey,prove}.ts',
  'load-tests/{compare,bench,load}.ts',
];

/** What plain JavaScript here uses of Node without importing it. */
const nodeGlobals =
  'Buffer URL console process setInterval clearInterval setTimeout clearTimeout'.split(' ');

export default defineConfig({
  plugins: ['eslint', 'typescript'],
  jsPlugins: [fileURLToPath(new URL('./infra/lint/house-rules.ts', import.meta.url))],
  // Every rule is named.
  categories: { correctness: 'off' },
  options: { reportUnusedDisableDirectives: 'error', typeAware: true },
  ignorePatterns: ['**/node_modules', '.triplock', '.nx'],
  rules: {
    ...syntaxRules,
    eqeqeq: ['error', 'always', { null: 'ignore' }],
    // Not no-control-regex: control characters are refused in requests and stripped from terminals
    // on purpose.
    'no-console': 'error',
    'max-params': ['error', { max: 4 }],
    'house/may-import': 'error',
    'house/one-way': 'error',
    'house/by-name': 'error',
    'house/declared-packages': 'error',
    'house/bare-domain': 'error',
    'house/named-exports': 'error',
    'house/one-barrel': 'error',
    'house/one-door': 'error',
    'house/node-protocol': 'error',
    'house/drivers-in-adapters': 'error',
    'house/settings-in-config': 'error',
    'house/plain-properties': 'error',
  },
  overrides: [
    { files: ['**/*.ts'], rules: { ...typeScriptRules, ...typeRules } },
    {
      files: ['**/*.{js,mjs}'],
      globals: Object.fromEntries(nodeGlobals.map((name) => [name, 'readonly'] as const)),
      rules: javaScriptRules,
    },
    { files: ['services/console/html/public/**'], env: { browser: true } },
    {
      files: testFiles,
      rules: {
        'house/may-import': ['error', { inTests: true }],
        'house/bare-domain': ['error', { inTests: true }],
        'house/no-sleeping-tests': 'error',
        'house/one-door': 'off',
        'house/doors-for-tests': 'error',
      },
    },
    { files: [...testFiles, 'e2e/**'], rules: laxInTests },
    // A file that awaits while it loads calls its functions before the constants below them have a
    // value.
    {
      files: entryFiles,
      rules: {
        'no-use-before-define': [
          'error',
          { functions: false, classes: true, variables: true, typedefs: false },
        ],
      },
    },
    { files: ['libs/payments/**'], rules: { 'house/pure-domain': 'error' } },
    {
      files: testFiles.map((pattern) => `libs/payments/${pattern}`),
      rules: { 'house/pure-domain': 'off' },
    },
    // k6 calls what a scenario's own file exports.
    { files: ['load-tests/k6/*.ts', '**/index.ts'], rules: { 'house/one-barrel': 'off' } },
    // All of runtime would be half of what it takes, as long as the Pub/Sub emulator runs.
    { files: ['infra/pubsub-door/main.ts'], rules: { 'house/one-door': 'off' } },
    { files: driverHomes, rules: { 'house/drivers-in-adapters': 'off' } },
    { files: environmentHomes, rules: { 'house/settings-in-config': 'off' } },
    { files: ['{infra,demo,e2e,load-tests}/**'], rules: { 'no-console': 'off' } },
    // What oxlint and Node ask for.
    {
      files: ['oxlint.config.ts', 'infra/lint/house-rules.ts', 'infra/test-runner/reporter.ts'],
      rules: { 'house/named-exports': 'off' },
    },
  ],
});
