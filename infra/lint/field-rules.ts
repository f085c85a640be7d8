import type { DummyRuleMap } from 'oxlint';

/*
 * What ESLint and typescript-eslint recommend: rule by rule, so that no version of a tool adds or
 * loses one unseen. What the compiler itself refuses is not repeated for TypeScript.
 */

const nodeTest = ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach'];
const unusedOnPurpose = { argsIgnorePattern: '^_', varsIgnorePattern: '^_' };

/** For every file. */
export const syntaxRules: DummyRuleMap = {
  ...errors(
    'for-direction no-async-promise-executor no-case-declarations no-compare-neg-zero',
    'no-cond-assign no-constant-binary-expression no-constant-condition no-debugger no-delete-var',
    'no-dupe-else-if no-duplicate-case no-empty no-empty-character-class no-empty-pattern',
    'no-empty-static-block no-ex-assign no-extra-boolean-cast no-fallthrough no-global-assign',
    'no-invalid-regexp no-irregular-whitespace no-loss-of-precision no-misleading-character-class',
    'no-nonoctal-decimal-escape no-prototype-builtins no-regex-spaces no-self-assign',
    'no-shadow-restricted-names no-sparse-arrays no-unexpected-multiline no-unsafe-finally',
    'no-unsafe-optional-chaining no-unused-labels no-unused-private-class-members',
    'no-useless-backreference no-useless-catch no-useless-escape require-yield use-isnan',
    'valid-typeof',
  ),
  'no-unused-vars': ['error', { ...unusedOnPurpose, ignoreRestSiblings: true }],
};

/** For plain JavaScript, which no compiler reads. */
export const javaScriptRules: DummyRuleMap = errors(
  'constructor-super getter-return no-class-assign no-const-assign no-dupe-class-members',
  'no-dupe-keys no-func-assign no-import-assign no-new-native-nonconstructor no-obj-calls',
  'no-redeclare no-setter-return no-this-before-super no-undef no-unreachable no-unsafe-negation',
  'no-with',
);

/** For TypeScript, without a look at types. */
export const typeScriptRules: DummyRuleMap = {
  ...errors(
    'no-array-constructor no-unused-expressions no-var prefer-const prefer-rest-params',
    'prefer-spread',
  ),
  ...errorsOf(
    'typescript',
    'ban-ts-comment no-duplicate-enum-values no-empty-object-type no-explicit-any',
    'no-extra-non-null-assertion no-misused-new no-namespace no-non-null-asserted-optional-chain',
    'no-require-imports no-this-alias no-unnecessary-type-constraint',
    'no-unsafe-declaration-merging no-unsafe-function-type no-wrapper-object-types',
    'prefer-as-const prefer-namespace-keyword triple-slash-reference',
  ),
};

/** For TypeScript, by its types. */
export const typeRules: DummyRuleMap = {
  ...errorsOf(
    'typescript',
    'await-thenable no-array-delete no-base-to-string no-duplicate-type-constituents',
    'no-for-in-array no-implied-eval no-misused-promises no-redundant-type-constituents',
    'no-unnecessary-type-assertion no-unsafe-argument no-unsafe-assignment no-unsafe-call',
    'no-unsafe-enum-comparison no-unsafe-member-access no-unsafe-return no-unsafe-unary-minus',
    'only-throw-error prefer-promise-reject-errors restrict-plus-operands',
    'switch-exhaustiveness-check',
  ),
  // node:test awaits what it is given by itself.
  'typescript/no-floating-promises': [
    'error',
    { allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: nodeTest }] },
  ],
  'typescript/restrict-template-expressions': ['error', { allowNumber: true }],
  // Not require-await: a port's method is async by its contract, also in a store that answers at
  // once. Not unbound-method: ports are objects of closures, and no method has a `this` to lose.
};

/** A test reads what it got from outside and asserts on it: that assertion is its type check. */
export const laxInTests: DummyRuleMap = Object.fromEntries(
  ['argument', 'assignment', 'call', 'member-access', 'return'].map((what) => [
    `typescript/no-unsafe-${what}`,
    'off',
  ]),
);

function errors(...names: string[]): DummyRuleMap {
  return Object.fromEntries(
    names.flatMap((line) => line.split(' ')).map((name) => [name, 'error']),
  );
}

function errorsOf(plugin: string, ...names: string[]): DummyRuleMap {
  const rules = Object.keys(errors(...names)).map((name) => `${plugin}/${name}`);
  return errors(...rules);
}
