import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { oxlint, type Problem } from './judge.ts';
import { projectFolders, root, workspaceFiles } from './workspace-files.ts';

/** A text, and the path of the workspace at which it is judged; no file need be there. */
export type Example = { path: string; text: string };

/**
 * Lints each example as if it stood at its path, by the workspace's own configuration with types;
 * returns the rules that refused it, such as 'house/one-door', a rule as often as it did. A file
 * named `example` gets a number, so that several stand side by side.
 */
export async function lintExamples(
  examples: readonly Example[],
): Promise<ReadonlyMap<Example, readonly string[]>> {
  const folder = copyOfWorkspace();
  try {
    const placed = examples.map((example, n) => {
      const path = example.path.replace('/example.', `/example-${n}.`);
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), example.text, { flag: 'wx' });
      return { example, path };
    });
    const problems = await oxlint([], { cwd: folder });
    return new Map(
      placed.map(({ example, path }) => {
        const own = problems.filter(({ filename }) => filename === path);
        return [example, own.map(ruleOf)];
      }),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A workspace of the same projects under the same rules, without a source. */
export function copyOfWorkspace(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lint-examples-'));
  const manifests = projectFolders(workspaceFiles()).map((project) => `${project}/package.json`);
  const settings = ['package.json', 'tsconfig.json', 'tsconfig.base.json', '.prettierignore'];
  for (const path of [...settings, ...manifests]) {
    cpSync(join(root, path), join(folder, path));
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const config = `import config from '${root}oxlint.config.ts';\n\nexport default config;\n`;
  writeFileSync(join(folder, 'oxlint.config.ts'), config);
  return folder;
}

/** 'house(one-door)' is 'house/one-door' in the configuration. */
function ruleOf({ code, message }: Problem): string {
  if (code === undefined)
    return message.startsWith('Unused oxlint-') ? 'unused-directive' : 'syntax';
  const [, plugin, rule] = /^([\w-]+)\((.+)\)$/.exec(code) ?? [];
  if (plugin === undefined) return code;
  return plugin === 'eslint'
    ? rule!
    : `${plugin.replace('typescript-eslint', 'typescript')}/${rule}`;
}
