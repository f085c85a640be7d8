// Runs one of the commands: looks first whether this machine has what it needs, installs the
// dependencies, and hands over to the command's TypeScript file under a Node that runs that as it
// is: the one that started this, where it is 24 or newer, else the pinned one.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { installDependencies, nodeIn } from './install-dependencies.mjs';
import { lookFirst } from './look-first.mjs';

/** Runs what was typed, of the table of commands, and sets the exit code. */
export async function launch({ commands, operators, root, name, args }) {
  if (name === undefined || name === '--help' || name === '-h') {
    const lines = Object.entries(commands).map(([each, [, does]]) => `  ${each.padEnd(14)}${does}`);
    process.stdout.write(`npm run <command> -- [options]\n\n${lines.join('\n')}\n`);
    return;
  }
  if (!Object.hasOwn(commands, name)) {
    fail(`unknown command "${name}": expected one of ${Object.keys(commands).join(', ')}`, 2);
    return;
  }
  const [file, , refusing] = commands[name];
  if (refusing !== undefined) {
    const { refuseWords } = await import(pathToFileURL(join(root, refusing)).href);
    const refusal = refuseWords(args, root);
    if (refusal !== undefined) return fail(refusal, 2);
  }
  const problem = (await lookFirst({ name, args, root })) ?? (await installDependencies(root));
  if (problem !== undefined) return fail(problem, 1);
  run(join(root, file), { root, words: file === operators ? [name, ...args] : args });
}

function run(file, { root, words }) {
  const node = nodeIn(root);
  const follow = new URL('./follow-launcher.mjs', import.meta.url).href;
  // What takes the compiled code away would write its own there when it ends.
  const isForgetting = file.endsWith('/down.ts') && words.includes('--volumes');
  const cache = join(root, '.triplock', 'compiled');
  // kafkajs computes a negative timer on newer Nodes; harmless, and only noise on a console.
  const flags = ['--disable-warning=TimeoutNegativeWarning', '--import', follow];
  const child = spawn(node, [...flags, file, ...words], {
    cwd: process.cwd(),
    // Compiled code is kept, types already stripped: the second start takes half the time.
    env: { ...(!isForgetting && { NODE_COMPILE_CACHE: cache }), ...process.env },
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`cannot run ${node}: ${error.message}`, 1));
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal];
  });
}

function fail(message, exitCode) {
  process.stderr.write(`triplock: ${message}\n`);
  process.exitCode = exitCode;
}
