import type { Tree } from '@nx/devkit';
import ts from 'typescript';

/** A list or record of what its file imports, by the file and the constant's name. */
export type List = { file: string; constant: string };

/** A list is not where a generator looks for it; the message names its file. */
export class LostList extends Error {}

/**
 * Puts what a package or file exports into a list, with its import: at the end, or before another
 * member. How it is laid out is left to the formatter.
 *
 * @throws LostList; nothing is written then.
 */
export function addToList(
  tree: Tree,
  { file, constant }: List,
  member: { name: string; from: string; before?: string },
): void {
  const text = tree.read(file, 'utf8') ?? '';
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const list = listIn(source, constant);
  if (list === undefined) throw new LostList(`${file} has no list '${constant}', to put it in`);
  const next = list.find((each) => each.getText() === member.before);
  if (member.before !== undefined && next === undefined) {
    throw new LostList(`${file} has no '${member.before}' in '${constant}', to put it before`);
  }
  const at = next?.getStart() ?? list.end;
  const lastImport = source.statements.findLast(ts.isImportDeclaration)?.end ?? 0;
  const separator = next === undefined && list.length > 0 && !list.hasTrailingComma ? ', ' : '';
  tree.write(
    file,
    [
      text.slice(0, lastImport),
      `\nimport { ${member.name} } from '${member.from}';`,
      text.slice(lastImport, at),
      `${separator}${member.name}, `,
      text.slice(at),
    ].join(''),
  );
}

/** The names of a list's members, in its order; none where it is not there. */
export function membersOf(tree: Tree, { file, constant }: List): string[] {
  const text = tree.read(file, 'utf8') ?? '';
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const members = listIn(source, constant) ?? [];
  return members.map((each) => (ts.isPropertyAssignment(each) ? each.name : each).getText());
}

/** The members of a constant that is an array or an object, whatever types are said of it. */
function listIn(source: ts.SourceFile, constant: string): ts.NodeArray<ts.Node> | undefined {
  const declared = source.statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => declarationList.declarations)
    .find(({ name }) => name.getText() === constant);
  let value = declared?.initializer;
  while (value !== undefined && (ts.isAsExpression(value) || ts.isSatisfiesExpression(value))) {
    value = value.expression;
  }
  if (value !== undefined && ts.isArrayLiteralExpression(value)) return value.elements;
  if (value !== undefined && ts.isObjectLiteralExpression(value)) return value.properties;
  return undefined;
}
