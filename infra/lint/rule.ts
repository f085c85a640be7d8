/**
 * What a rule of ours uses of ESLint's interface, which oxlint offers to plugins: its own types
 * describe every node of every language.
 */
export type Rule = {
  meta?: { schema: readonly object[] };
  create: (context: RuleContext) => Visitor;
};

export type RuleContext = {
  /** Absolute path of the file that is judged. */
  filename: string;
  options: readonly unknown[];
  report: (problem: { node: RuleNode; message: string }) => void;
};

export type RuleNode = { type: string; source?: { value?: unknown } | null };

type Visitor = Record<string, (node: RuleNode) => void>;

/** A rule that reports every node that one of the selectors matches. */
export function refuseSyntax(selectors: readonly string[], message: string): Rule {
  const create: Rule['create'] = ({ report }) => {
    return { [selectors.join(', ')]: (node) => report({ node, message }) };
  };
  return { create };
}

/** A rule that reports every import whose specifier the pattern matches. */
export function refuseImports(pattern: RegExp, message: string): Rule {
  return judgeImports(() => (specifier) => (pattern.test(specifier) ? message : undefined));
}

/**
 * A rule that asks about every import of a file: static, dynamic, of types, or as a re-export.
 * `judge` is called once for a file, what it returns once for each specifier; that returns what is
 * wrong with it.
 */
export function judgeImports(
  judge: (context: RuleContext) => (specifier: string) => string | undefined,
): Rule {
  const create: Rule['create'] = (context) => {
    const problemOf = judge(context);
    const check = (node: RuleNode) => {
      const specifier = node.source?.value;
      if (typeof specifier !== 'string') return;
      const message = problemOf(specifier);
      if (message !== undefined) context.report({ node, message });
    };
    const kinds = ['ImportDeclaration', 'ImportExpression', 'TSImportType'];
    const exports = ['ExportNamedDeclaration', 'ExportAllDeclaration'];
    return Object.fromEntries([...kinds, ...exports].map((kind) => [kind, check]));
  };
  return { create };
}
