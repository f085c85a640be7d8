import { audit } from './audit.ts';
import { deadLetters } from './dead-letters.ts';
import { operators } from './console/operators.ts';
import { migrate } from './migrate.ts';
import type { Caller } from './operator.ts';
import { partners } from './partners.ts';
import { republish } from './republish.ts';
import { rewind } from './rewind.ts';
import { trace } from './trace.ts';

/** Every command of the operators, with what it does. */
const commands = {
  audit: [audit, 'reconciles every layer'],
  trace: [trace, 'follows one payment through all layers'],
  'dead-letters': [deadLetters, 'lists what was set aside, and redrives it'],
  republish: [republish, 'publishes settled events again from the outbox'],
  rewind: [rewind, 'brings a database that lost its newest commits what it lacks'],
  partners: [partners, 'manages partners and their API keys'],
  operators: [operators, 'says who may use the console'],
  migrate: [migrate, 'brings the schema of a database up to date'],
} as const satisfies Record<string, readonly [(caller: Caller) => Promise<void>, string]>;

export type OperatorCommand = keyof typeof commands;

/** Runs one command to its end, and sets the process's exit code. */
export function operate(name: OperatorCommand, caller: Caller): Promise<void> {
  return commands[name][0](caller);
}

/** As {@link operate}, by the words of a command line: the command's name comes first. */
export async function operateByWords([name, ...args]: readonly string[]): Promise<void> {
  if (name !== undefined && isCommand(name)) return operate(name, { args });
  const asked = name === '--help' || name === '-h';
  const lines = Object.entries(commands).map(([each, [, does]]) => `  ${each.padEnd(14)}${does}`);
  const usage = `node main.ts COMMAND --help\n\n${lines.join('\n')}\n`;
  if (asked) process.stdout.write(usage);
  else {
    process.stderr.write(`triplock: give a command: ${usage}`);
    process.exitCode = 2;
  }
}

function isCommand(name: string): name is OperatorCommand {
  return Object.hasOwn(commands, name);
}
