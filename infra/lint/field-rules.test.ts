import assert from 'node:assert/strict';
import { test } from 'node:test';
import { javaScriptRules, syntaxRules, typeRules, typeScriptRules } from './field-rules.ts';
import { lintExamples, type Example } from './lint-example.ts';

type Texts = Readonly<Record<string, string>>;

/** For each rule a text that it must refuse, whatever others refuse in it. */
const brokenSyntax: Texts = {
  'for-direction': 'for (let i = 0; i < 9; i--) void i;',
  'no-async-promise-executor': 'void new Promise(async () => {});',
  'no-case-declarations': 'switch (1 as number) { case 1: let a = 1; void a; }',
  'no-compare-neg-zero': 'export const is = (n: number) => n === -0;',
  'no-cond-assign': 'let a: unknown; if (a = 1) void a;',
  'no-constant-binary-expression': 'export const a = {} || 1;',
  'no-constant-condition': 'if (true) void 0;',
  'no-debugger': 'debugger;',
  'no-delete-var': 'var a = 1; delete a;',
  'no-dupe-else-if': 'export const f = (a: boolean) => { if (a) return 1; else if (a) return 2; };',
  'no-duplicate-case': 'switch (1 as number) { case 1: break; case 1: break; }',
  'no-empty': 'if (Date.now() > 1) {}',
  'no-empty-character-class': 'export const a = /a[]/;',
  'no-empty-pattern': 'export const f = ({}) => 1;',
  'no-empty-static-block': 'export class A { static {} }',
  'no-ex-assign': 'try { void 0; } catch (e) { e = 1; }',
  'no-extra-boolean-cast': 'if (!!Date.now()) void 0;',
  'no-fallthrough': 'switch (Date.now()) { case 1: void 1; case 2: void 2; }',
  'no-global-assign': 'Object = 1;',
  'no-invalid-regexp': "export const a = new RegExp('[');",
  'no-irregular-whitespace': 'export const\u00a0a = 1;',
  'no-loss-of-precision': 'export const a = 9007199254740993;',
  'no-misleading-character-class': 'export const a = /[👍]/;',
  'no-nonoctal-decimal-escape': "export const a = '\\8';",
  'no-prototype-builtins': "export const a = ({}).hasOwnProperty('a');",
  'no-regex-spaces': 'export const a = /a  b/;',
  'no-self-assign': 'let a = 1; a = a; void a;',
  'no-shadow-restricted-names': 'export const f = (undefined: number) => undefined;',
  'no-sparse-arrays': 'export const a = [1, , 2];',
  'no-unexpected-multiline': 'const a = String\n(1).toString();\nvoid a;',
  'no-unsafe-finally': 'export const f = () => { try { return 1; } finally { return 2; } };',
  'no-unsafe-optional-chaining': 'export const f = (a?: { b: () => 1 }) => (a?.b)();',
  'no-unused-labels': 'a: for (;;) break;',
  'no-unused-private-class-members': 'export class A { #a = 1; }',
  'no-useless-backreference': 'export const a = /\\1(a)/;',
  'no-useless-catch': 'try { void 0; } catch (e) { throw e; }',
  'no-useless-escape': "export const a = '\\d';",
  'require-yield': 'export function* a() { void 0; }',
  'use-isnan': 'export const is = (a: number) => a === NaN;',
  'valid-typeof': "export const is = (a: unknown) => typeof a === 'strnig';",
  'no-unused-vars': 'const a = 1;',
};

const brokenJavaScript: Texts = {
  'constructor-super': 'export class A extends Map { constructor() { void 0; } }',
  'getter-return': 'export const a = { get b() { void 0; } };',
  'no-class-assign': 'class A {} A = 1; void A;',
  'no-const-assign': 'const a = 1; a = 2; void a;',
  'no-dupe-class-members': 'export class A { a() {} a() {} }',
  'no-dupe-keys': 'export const a = { b: 1, b: 2 };',
  'no-func-assign': 'function a() {} a = 1; void a;',
  'no-import-assign': "import a from 'node:fs'; a = 1; void a;",
  'no-new-native-nonconstructor': "export const a = new Symbol('a');",
  'no-obj-calls': 'export const a = Math();',
  'no-redeclare': 'var a = 1; var a = 2; void a;',
  'no-setter-return': 'export const a = { set b(c) { return c; } };',
  'no-this-before-super': 'export class A extends Map { constructor() { this.a = 1; super(); } }',
  'no-undef': 'export const a = nowhere;',
  'no-unreachable': 'export const f = () => { return 1; void 0; };',
  'no-unsafe-negation': "export const a = !'a' in {};",
  'no-with': 'with (Math) void 0;',
};

const brokenTypeScript: Texts = {
  'no-array-constructor': 'export const a = new Array(1, 2);',
  'no-unused-expressions': '1 + Date.now();',
  'no-var': 'export var a = 1;',
  'prefer-const': 'let a = 1; void a;',
  'prefer-rest-params': 'export function f() { return arguments; }',
  'prefer-spread': 'export const f = (a: number[]) => Math.max.apply(Math, a);',
  'typescript/ban-ts-comment': '// @ts-ignore\nexport const a = 1;',
  'typescript/no-duplicate-enum-values': 'export enum A { B = 1, C = 1 }',
  'typescript/no-empty-object-type': 'export type A = {};',
  'typescript/no-explicit-any': 'export type A = any;',
  'typescript/no-extra-non-null-assertion': 'export const f = (a?: { b: 1 }) => a!!.b;',
  'typescript/no-misused-new': 'export interface A { new (): A }',
  'typescript/no-namespace': 'export namespace A { export const b = 1; }',
  'typescript/no-non-null-asserted-optional-chain': 'export const f = (a?: { b: 1 }) => a?.b!;',
  'typescript/no-require-imports': "import fs = require('node:fs'); void fs;",
  'typescript/no-this-alias': 'export function f(this: object) { const self = this; void self; }',
  'typescript/no-unnecessary-type-constraint': 'export type A<B extends unknown> = B[];',
  'typescript/no-unsafe-declaration-merging': 'export interface A { b: 1 }\nexport class A {}',
  'typescript/no-unsafe-function-type': 'export type A = Function;',
  'typescript/no-wrapper-object-types': 'export type A = String;',
  'typescript/prefer-as-const': "export const a = 'b' as 'b';",
  'typescript/prefer-namespace-keyword': 'export module A { export const b = 1; }',
  'typescript/triple-slash-reference': '/// <reference path="./a.ts" />\nexport const a = 1;',
};

const later = 'declare function later(): Promise<number>;\n';
const anything = "const anything = JSON.parse('1');\n";

const brokenTypes: Texts = {
  'typescript/await-thenable': 'export const f = async () => await 1;',
  'typescript/no-array-delete': 'const a = [1]; delete a[0];',
  'typescript/no-base-to-string': 'export const a = String({});',
  'typescript/no-duplicate-type-constituents': "export type A = 'a' | 'a';",
  'typescript/no-floating-promises': `${later}later();`,
  'typescript/no-for-in-array': 'for (const a in [1]) void a;',
  'typescript/no-implied-eval': "setTimeout('void 0', 1);",
  'typescript/no-misused-promises': `${later}[1].forEach(async () => { await later(); });`,
  'typescript/no-redundant-type-constituents': 'export type A = unknown | 1;',
  'typescript/no-unnecessary-type-assertion': 'const a: number = Date.now(); void (a as number);',
  'typescript/no-unsafe-argument': `${anything}Math.abs(anything);`,
  'typescript/no-unsafe-assignment': `${anything}export const a = anything;`,
  'typescript/no-unsafe-call': `${anything}anything();`,
  'typescript/no-unsafe-enum-comparison': 'enum A { B }\nexport const is = (a: A) => a === 0;',
  'typescript/no-unsafe-member-access': `${anything}void anything.a;`,
  'typescript/no-unsafe-return': `${anything}export const f = () => anything;`,
  'typescript/no-unsafe-unary-minus': "export const a = -('1' as unknown as string);",
  'typescript/only-throw-error': "throw 'a';",
  'typescript/prefer-promise-reject-errors': "void Promise.reject('a');",
  'typescript/restrict-plus-operands': 'export const f = (a: { c: 1 }, b: string) => a + b;',
  'typescript/restrict-template-expressions': 'export const f = (a: object) => `${a}`;',
  'typescript/switch-exhaustiveness-check':
    "export const f = (a: 'b' | 'c') => { switch (a) { case 'b': return 1; } };",
};

/** Modules are strict: the parser refuses these before a rule is asked. */
const refusedByTheParser = ['no-delete-var', 'no-nonoctal-decimal-escape', 'no-with'];

const tables = [
  { name: 'every file', rules: syntaxRules, texts: brokenSyntax, suffix: 'ts' },
  { name: 'JavaScript', rules: javaScriptRules, texts: brokenJavaScript, suffix: 'mjs' },
  { name: 'TypeScript', rules: typeScriptRules, texts: brokenTypeScript, suffix: 'ts' },
  { name: 'types', rules: typeRules, texts: brokenTypes, suffix: 'ts' },
].map((table) => ({ ...table, examples: examplesOf(table.texts, table.suffix) }));

const found = await lintExamples(tables.flatMap(({ examples }) => [...examples.values()]));

for (const { name, rules, texts, examples } of tables) {
  test(`each rule for ${name} has a broken example`, () => {
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(rules).sort());
  });

  for (const [rule, example] of examples) {
    test(`${rule} refuses ${example.text.split('\n').at(-3)}`, () => {
      const expected = refusedByTheParser.includes(rule) ? 'syntax' : rule;
      assert.ok(found.get(example)!.includes(expected), found.get(example)!.join(', '));
    });
  }
}

function examplesOf(texts: Texts, suffix: string): Map<string, Example> {
  return new Map(
    Object.entries(texts).map(([rule, text]) => {
      const path = `services/ledger-worker/${rule.replaceAll('/', '-')}.${suffix}`;
      return [rule, { path, text: `${text}\nexport {};\n` }] as const;
    }),
  );
}
