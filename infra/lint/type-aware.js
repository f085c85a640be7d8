import { fileURLToPath } from 'node:url';
import tseslint from 'typescript-eslint';

const nodeTest = ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach'];

/** What plain JavaScript here uses of Node without importing it. */
const nodeGlobals =
  'Buffer URL console process setInterval clearInterval setTimeout clearTimeout'.split(' ');

const rules = {
  // node:test awaits what it is given by itself.
  '@typescript-eslint/no-floating-promises': [
    'error',
    { allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: nodeTest }] },
  ],
  '@typescript-eslint/switch-exhaustiveness-check': 'error',
  '@typescript-eslint/no-unused-vars': [
    'error',
    { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true },
  ],
  '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
  // A port's method is async by its contract, also in a store that answers at once.
  '@typescript-eslint/require-await': 'off',
  // Ports are objects of closures: none of their methods has a `this` to lose.
  '@typescript-eslint/unbound-method': 'off',
};

/** The rules that need types, for TypeScript; plain JavaScript files have no project to ask. */
export const typeAware = [
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        project: 'tsconfig.json',
        tsconfigRootDir: fileURLToPath(new URL('../..', import.meta.url)),
      },
    },
    rules,
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    extends: [tseslint.configs.base],
    languageOptions: { globals: Object.fromEntries(nodeGlobals.map((name) => [name, 'readonly'])) },
  },
];

/** A test reads what it got from outside and asserts on it: that assertion is its type check. */
export const laxInTests = {
  rules: Object.fromEntries(
    ['argument', 'assignment', 'call', 'member-access', 'return']
      .map((what) => `@typescript-eslint/no-unsafe-${what}`)
      .map((rule) => [rule, 'off']),
  ),
};
