import { builtinModules } from 'node:module';
import { functionBudget } from './budgets.js';

const bareBuiltins = builtinModules.filter((name) => !name.startsWith('node:')).join('|');

/**
 * The house's own rules. A rule for each arrow or habit, so that an error names what was broken.
 */
export const houseRules = {
  'function-budget': functionBudget,
  'named-exports': refuseSyntax(
    'ExportDefaultDeclaration, ExportSpecifier[exported.name="default"]',
    'Export by name: one thing has one name everywhere.',
  ),
  'one-barrel': refuseSyntax(
    'ExportAllDeclaration, ExportNamedDeclaration[source]',
    "Only a lib's index.ts exports again what another file holds.",
  ),
  'one-door': refuseImports(
    /^@triplock\/[^/]+\/(?!(service|generated)$)/,
    "A lib has one door, its index.ts: import '@triplock/<lib>'.",
  ),
  'doors-for-tests': refuseImports(
    /^@triplock\/[^/]+\/(?!(conformance|test|service|generated)$)/,
    "Beside its index.ts a lib opens '@triplock/<lib>/conformance' and '/test' to tests.",
  ),
  'node-protocol': refuseImports(
    new RegExp(`^(${bareBuiltins})$`),
    "Import built-in modules with their protocol: 'node:…'.",
  ),
  'drivers-in-adapters': refuseImports(
    /^(ioredis|kafkajs|@platformatic\/kafka|pg|pg-[^/]+|stripe|@google-cloud\/[^/]+|@aws-sdk\/[^/]+|@grpc\/[^/]+)(\/|$)/,
    'Drivers live in the adapters, so that a store is swapped in one folder.',
  ),
  'pure-domain': refuseImports(
    /^node:(?!crypto$)/,
    'The domain does no I/O; of Node it takes hashes only.',
  ),
  'settings-in-config': refuseSyntax(
    [
      'MemberExpression[object.name="process"][property.name="env"]',
      'MemberExpression[object.name="process"][property.value="env"]',
      'VariableDeclarator[init.name="process"] > ObjectPattern > Property[key.name="env"]',
      'ImportDeclaration[source.value="node:process"] > ImportSpecifier[imported.name="env"]',
    ].join(', '),
    'Only config.ts reads the environment: settings are checked once, at boot.',
  ),
  'plain-properties': refuseSyntax(
    'ObjectExpression > SpreadElement > ObjectExpression',
    'Write these properties as they are: spreading a literal into a literal says nothing more.',
  ),
  'no-sleeping-tests': refuseSyntax(
    [
      'ImportDeclaration[source.value="node:timers/promises"]',
      'NewExpression[callee.name="Promise"] CallExpression[callee.name="setTimeout"]',
    ].join(', '),
    'A test waits for a state (eventually), never for time to pass.',
  ),
};

/** A rule that reports every node that the selector matches. */
function refuseSyntax(selector, message) {
  return { create: (context) => ({ [selector]: (node) => context.report({ node, message }) }) };
}

/**
 * A rule that reports every import (static, dynamic, of types, or as a re-export) whose specifier
 * the pattern matches.
 */
function refuseImports(pattern, message) {
  const check = (context, node) => {
    if (typeof node.source?.value === 'string' && pattern.test(node.source.value)) {
      context.report({ node, message });
    }
  };
  return {
    create: (context) => ({
      ImportDeclaration: (node) => check(context, node),
      ImportExpression: (node) => check(context, node),
      ExportNamedDeclaration: (node) => check(context, node),
      ExportAllDeclaration: (node) => check(context, node),
    }),
  };
}
