import { builtinModules } from 'node:module';
import { boundaryRules } from './boundaries.ts';
import { refuseImports, refuseSyntax, type Rule } from './rule.ts';

const bareBuiltins = builtinModules.filter((name) => !name.startsWith('node:')).join('|');

/** A rule for each habit, so that an error names what was broken. */
const habits: Readonly<Record<string, Rule>> = {
  'named-exports': refuseSyntax(
    ['ExportDefaultDeclaration', 'ExportSpecifier[exported.name="default"]'],
    'Export by name: one thing has one name everywhere.',
  ),
  'one-barrel': refuseSyntax(
    ['ExportAllDeclaration', 'ExportNamedDeclaration[source]'],
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
    ],
    'Only config.ts reads the environment: settings are checked once, at boot.',
  ),
  'plain-properties': refuseSyntax(
    ['ObjectExpression > SpreadElement > ObjectExpression'],
    'Write these properties as they are: spreading a literal into a literal says nothing more.',
  ),
  'no-sleeping-tests': refuseSyntax(
    [
      'ImportDeclaration[source.value="node:timers/promises"]',
      'NewExpression[callee.name="Promise"] CallExpression[callee.name="setTimeout"]',
    ],
    'A test waits for a state (eventually), never for time to pass.',
  ),
};

/** The house's own rules, as a plugin of oxlint's. */
export default { meta: { name: 'house' }, rules: { ...habits, ...boundaryRules } };
