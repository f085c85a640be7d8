import js from '@eslint/js';
import nx from '@nx/eslint-plugin/nx';
import { defineConfig } from 'eslint/config';
import { budgets } from './infra/lint/budgets.js';
import {
  driverHomes,
  environmentHomes,
  moduleBoundaries,
  requireProjectGraph,
  testFiles,
} from './infra/lint/boundaries.js';
import { houseRules } from './infra/lint/house-rules.js';
import { laxInTests, typeAware } from './infra/lint/type-aware.js';

await requireProjectGraph();

const entryFiles = [
  'services/*/main.ts',
  'infra/generators/{generate,new}.ts',
  'infra/launcher/commands/*.ts',
  'demo/{scenario,main,saga}.ts',
  'e2e/{journey,prove}.ts',
  'load-tests/{compare,bench,load}.ts',
];
const boundaries = '@nx/enforce-module-boundaries';

export default defineConfig(
  { ignores: ['**/node_modules', '.triplock', '.nx'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  typeAware,
  {
    plugins: { '@nx': nx, house: { rules: houseRules } },
    rules: {
      ...budgets,
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      // Control characters are refused in requests and stripped from terminals on purpose.
      'no-control-regex': 'off',
      'no-console': 'error',
      [boundaries]: ['error', moduleBoundaries({ inTests: false })],
      'house/named-exports': 'error',
      'house/one-barrel': 'error',
      'house/one-door': 'error',
      'house/node-protocol': 'error',
      'house/drivers-in-adapters': 'error',
      'house/settings-in-config': 'error',
      'house/plain-properties': 'error',
    },
  },
  {
    files: testFiles,
    rules: {
      [boundaries]: ['error', moduleBoundaries({ inTests: true })],
      'house/no-sleeping-tests': 'error',
      'house/one-door': 'off',
      'house/doors-for-tests': 'error',
    },
  },
  { files: [...testFiles, 'e2e/**'], ...laxInTests },
  // A file that awaits while it loads calls its functions before the constants below have a value.
  {
    files: entryFiles,
    rules: {
      '@typescript-eslint/no-use-before-define': [
        'error',
        { functions: false, classes: true, variables: true, typedefs: false },
      ],
    },
  },
  { files: ['libs/payments/**'], ignores: testFiles, rules: { 'house/pure-domain': 'error' } },
  // k6 calls what a scenario's own file exports.
  { files: ['load-tests/k6/*.ts'], rules: { 'house/one-barrel': 'off' } },
  { files: ['**/index.ts'], rules: { 'house/one-barrel': 'off' } },
  // All that the console says in one place, for whoever translates it; there is nothing to follow.
  { files: ['services/operator/console/words.ts'], rules: { 'max-lines': 'off' } },
  { files: driverHomes, rules: { 'house/drivers-in-adapters': 'off' } },
  { files: environmentHomes, rules: { 'house/settings-in-config': 'off' } },
  { files: ['{infra,demo,e2e,load-tests}/**'], rules: { 'no-console': 'off' } },
  { files: ['eslint.config.js'], rules: { 'house/named-exports': 'off' } },
);
