import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runCommand, UsageError } from '@triplock/launcher';

const root = resolve(import.meta.dirname, '../..');

const help = `
npm run new -- KIND NAME
npm run rename -- NAME

Writes a piece that runs, is tested and is audited, or gives the repository your name. What is not
given is asked for. Nothing is written when the name is taken or is not a name.

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
  wordsMax: 2,
  run: async ({ words: [kind, name] }) => {
    const known = kinds().map((each) => each.kind);
    if (kind === undefined || !known.includes(kind)) {
      const given = kind === undefined ? 'a kind is missing' : `'${kind}' is no kind`;
      throw new UsageError(`${given}: it takes one of ${known.join(', ')} (npm run new -- --help)`);
    }
    if (name === undefined && !process.stdin.isTTY) {
      throw new UsageError(`a name is missing: npm run new -- ${kind} NAME`);
    }
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
