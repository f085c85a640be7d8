import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runCommand } from '@triplock/launcher';
import { UsageError } from '@triplock/command';
import { refuseWords } from './names.mjs';

const root = resolve(import.meta.dirname, '../..');

const help = `
npm run new -- KIND NAME
npm run rename -- NAME

Writes a piece that runs, is tested and is audited, takes one out, or gives the repository your
name. What is not given is asked for. Nothing is written when a name is refused.

KIND is one of:
${kinds()
  .map(({ kind, description }) => `  ${kind.padEnd(12)} ${description}`)
  .join('\n')}

  --help
`;

await runCommand({
  name: 'new',
  help,
  options: {},
  wordsMax: 3,
  run: async ({ words }) => {
    // The launcher has asked before it installed anything; who runs this file is told the same.
    const refusal = refuseWords(words, root);
    if (refusal !== undefined) throw new UsageError(refusal);
    const [kind, name] = words as [string, string?];
    process.exitCode = await generate(kind, name);
  },
});

/** The generators of generators.json, by the order there. */
function kinds(): { kind: string; description: string }[] {
  const text = readFileSync(join(import.meta.dirname, 'generators.json'), 'utf8');
  const { generators } = JSON.parse(text) as {
    generators: Record<string, { description: string }>;
  };
  return Object.entries(generators).map(([kind, { description }]) => ({ kind, description }));
}

/** Lets Nx run it: it asks for what is missing, and writes all files at the end or none. */
function generate(kind: string, name: string | undefined): Promise<number> {
  const nx = join(root, 'node_modules', 'nx', 'dist', 'bin', 'nx.js');
  // A new name is in hundreds of files.
  const quiet = kind === 'rename' ? ['--quiet'] : [];
  const named = name === undefined ? [] : [name];
  const words = ['generate', `@triplock/generators:${kind}`, ...named, ...quiet];
  const child = spawn(process.execPath, [nx, ...words], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, NX_DAEMON: 'false' },
  });
  return new Promise((done, failed) => {
    child.once('error', failed);
    child.once('exit', (code) => done(code ?? 1));
  });
}
