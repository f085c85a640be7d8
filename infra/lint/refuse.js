/** A rule that reports every node that the selector matches. */
export function refuseSyntax(selector, message) {
  return { create: (context) => ({ [selector]: (node) => context.report({ node, message }) }) };
}

/**
 * A rule that reports every import (static, dynamic, of types, or as a re-export) whose specifier
 * the pattern matches.
 */
export function refuseImports(pattern, message) {
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
