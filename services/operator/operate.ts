import type { Caller } from '@triplock/inspect';

/** Every command of the operators, loaded when it is called, with what it does. */
const commands = {
  audit: [async () => (await import('./audit.ts')).audit, 'reconciles every layer'],
  trace: [async () => (await import('./trace.ts')).trace, 'follows one payment through all layers'],
  'dead-letters': [
    async () => (await import('./dead-letters.ts')).deadLetters,
    'lists what was set aside, and redrives it',
  ],
  republish: [
    async () => (await import('./republish.ts')).republish,
    'publishes settled events again from the outbox',
  ],
  rewind: [
    async () => (await import('./rewind.ts')).rewind,
    'brings a database that lost its newest commits what it lacks',
  ],
  'give-back': [
    async () => (await import('./give-back.ts')).giveBack,
    'gives back money of a payment that has ended without it',
  ],
  partners: [
    async () => (await import('./partners.ts')).partners,
    'manages partners and their API keys',
  ],
  operators: [
    async () => (await import('./operators.ts')).operators,
    'says who may use the console',
  ],
  migrate: [
    async () => (await import('./migrate.ts')).migrate,
    'brings the schema of a database up to date',
  ],
} as const satisfies Record<
  string,
  readonly [() => Promise<(caller: Caller) => Promise<void>>, string]
>;

export type OperatorCommand = keyof typeof commands;

/** Runs one command to its end, and sets the process's exit code. */
export async function operate(name: OperatorCommand, caller: Caller): Promise<void> {
  const command = await commands[name][0]();
  return command(caller);
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
