// The first file of every npm script, in plain JavaScript that any Node from 20 on can run: it
// installs what is missing and hands over to the command's TypeScript file under a Node that runs
// that as it is: the one that started this, where it is 24 or newer, else the pinned one.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installDependencies, nodeIn } from './install-dependencies.mjs';

/** The operators' commands, for the system on this machine. */
const operators = 'infra/launcher/commands/operate.ts';

/** Every command: the file that runs it and the line that `--help` shows. */
const commands = {
  demo: ['demo/main.ts', 'starts everything and walks through the guided story'],
  up: ['infra/launcher/commands/up.ts', 'starts the whole system in the background'],
  down: ['infra/launcher/commands/down.ts', 'stops it and keeps its data'],
  status: ['infra/launcher/commands/status.ts', 'shows what runs, and whether it is ready'],
  logs: ['infra/launcher/commands/logs.ts', 'shows the logs'],
  scenario: ['demo/scenario.ts', 'runs one failure for real and shows which guard absorbed it'],
  audit: [operators, 'reconciles every layer'],
  trace: [operators, 'follows one payment through all layers'],
  saga: ['demo/saga.ts', 'pays for an order and hands it over, or gives the money back'],
  partners: [operators, 'manages partners and their API keys'],
  operators: [operators, 'says who may use the console'],
  migrate: [operators, 'brings the schema of a database elsewhere up to date'],
  'dead-letters': [operators, 'lists what was set aside, and redrives it'],
  republish: [operators, 'publishes settled events again from the outbox'],
  rewind: [operators, 'brings a database that lost its newest commits what it lacks'],
  load: ['load-tests/load.ts', 'loads the system with k6, and audits it'],
  bench: ['load-tests/bench.ts', 'measures what a payment costs'],
  compare: ['load-tests/compare.ts', 'measures the claim stores side by side'],
  generate: ['infra/generators/generate.ts', 'writes what is made from other files'],
  new: ['infra/generators/new.ts', 'writes a consumer, a transaction, a service; or renames all'],
  journey: ['e2e/journey.ts', 'shows which files run for one payment'],
  prove: ['e2e/prove.ts', 'proves the promises: long faults, guards removed, every claim store'],
  test: [
    'infra/launcher/commands/test.ts',
    'runs lint, type checks, tests and the promises end to end',
  ],
};

const root = fileURLToPath(new URL('../..', import.meta.url));
const [name, ...args] = process.argv.slice(2);

if (name === undefined || name === '--help' || name === '-h') {
  const lines = Object.entries(commands).map(([each, [, does]]) => `  ${each.padEnd(14)}${does}`);
  process.stdout.write(`npm run <command> -- [options]\n\n${lines.join('\n')}\n`);
} else if (!Object.hasOwn(commands, name)) {
  fail(`unknown command "${name}": expected one of ${Object.keys(commands).join(', ')}`, 2);
} else {
  await main(commands[name][0]);
}

async function main(file) {
  const problem = await installDependencies(root);
  if (problem !== undefined) fail(problem, 1);
  else run(file);
}

function run(file) {
  const node = nodeIn(root);
  const follow = new URL('./follow-launcher.mjs', import.meta.url).href;
  // kafkajs computes a negative timer on newer Nodes; harmless, and only noise on a console.
  const flags = ['--disable-warning=TimeoutNegativeWarning', '--import', follow];
  const words = file === operators ? [name, ...args] : args;
  const child = spawn(node, [...flags, join(root, file), ...words], {
    cwd: process.cwd(),
    // Compiled code is kept, types already stripped: the second start takes half the time.
    env: { NODE_COMPILE_CACHE: join(root, '.triplock', 'compiled'), ...process.env },
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
