import { ESLint, type Linter } from 'eslint';
import tseslint from 'typescript-eslint';
import { root } from './workspace-files.ts';

/**
 * Lints a text as if it stood at that path of the workspace; returns "rule messageId" of each
 * error.
 */
export type LintExample = (path: string, text: string) => Promise<string[]>;

const configUrl = new URL('../../eslint.config.js', import.meta.url).href;
const { default: config } = (await import(configUrl)) as { default: Linter.Config[] };

/** An example's file does not exist, so no project can tell its types. */
const withoutTypes: Linter.Config = {
  languageOptions: { parserOptions: { project: false } },
  rules: tseslint.configs.disableTypeChecked.rules,
};

/**
 * With CI=true the parser takes a run for a single pass over files as they are on disk, and an
 * example would be judged by the text of the file in whose place it stands.
 */
const textsAsGiven: Linter.Config = {
  languageOptions: { parserOptions: { disallowAutomaticSingleRunInference: true } },
};

/** The workspace's own configuration with types; the path must be that of a file there is. */
export const lintTypedExample = linter({ cwd: root, overrideConfig: textsAsGiven });

/** The same without types, for a path where no file is. */
export const lintExample = linter({ cwd: root, overrideConfig: withoutTypes });

/**
 * And with cycles let through: an arrow against the grain is refused as a cycle before anyone
 * looks at its tags, and would be refused so even if the tags allowed it.
 */
export const lintArrow = linter({
  cwd: root,
  overrideConfigFile: true,
  overrideConfig: [...config.map(allowCycles), withoutTypes],
});

function linter(options: ESLint.Options): LintExample {
  const eslint = new ESLint(options);
  return async (path, text) => {
    const [result] = await eslint.lintText(text, { filePath: `${root}${path}` });
    if (result === undefined) throw new Error(`${path} is ignored by the configuration`);
    return result.messages.map(({ ruleId, messageId, message }) =>
      ruleId === null ? message : [ruleId, messageId].filter(Boolean).join(' '),
    );
  };
}

function allowCycles(block: Linter.Config): Linter.Config {
  const rule = block.rules?.['@nx/enforce-module-boundaries'];
  if (!Array.isArray(rule)) return block;
  const options = { ...(rule[1] as object), ignoredCircularDependencies: [['*', '*']] };
  return {
    ...block,
    rules: { ...block.rules, '@nx/enforce-module-boundaries': ['error', options] },
  };
}
