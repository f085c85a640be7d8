import { parseArgs, type ParseArgsConfig } from 'node:util';
import { takeUpContainers } from '../containers/take-up.ts';
import { Interrupted, LauncherError, UsageError } from '../errors.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<Wanted extends Options> = {
  readonly [Name in keyof Wanted]?: Wanted[Name]['type'] extends 'string' ? string : boolean;
};

/** A command: what it is called, what it says of itself, what it takes and what it does. */
export type Command<Wanted extends Options> = {
  name: string;
  help: string;
  options: Wanted;
  /** Words besides options that it takes; 0 by default. */
  wordsMax?: number;
  run(input: {
    values: Values<Wanted>;
    words: readonly string[];
    /** From its call on, a Ctrl-C aborts this signal instead of ending the process. */
    interrupted: () => AbortSignal;
  }): Promise<void>;
};

/**
 * Runs a command with the process's arguments. Exit codes: 0 done, 1 failed, 2 called in a wrong
 * way, 130 interrupted. What a person can act on is printed as it is, anything else with its stack.
 */
export async function runCommand<const Wanted extends Options>(
  command: Command<Wanted>,
): Promise<void> {
  const controller = new AbortController();
  const interrupted = () => {
    // Further signals change nothing: cleaning up goes on to its end.
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => controller.abort());
    }
    return controller.signal;
  };
  for (const stream of [process.stdout, process.stderr]) stream.on('error', unlessClosed);
  try {
    const { values, words } = parse(command);
    if (values['help']) {
      process.stdout.write(`${command.help.trim()}\n`);
      return;
    }
    if ('home' in command.options) {
      const { home } = values as { home?: string };
      await takeUpContainers(home, (line) => process.stderr.write(`${line}\n`));
    }
    await command.run({ values: values as Values<Wanted>, words, interrupted });
  } catch (error) {
    const stopped = controller.signal.aborted && (error as Error).name === 'AbortError';
    process.exitCode = stopped ? 130 : error instanceof UsageError ? 2 : 1;
    const said = stopped ? `interrupted; ${leftBy(error)}` : describe(error);
    process.stderr.write(`triplock ${command.name}: ${said}\n`);
  }
}

function parse({ name, options, wordsMax = 0 }: Command<Options>) {
  const hint = `(npm run ${name} -- --help)`;
  try {
    const { values, positionals: words } = parseArgs({
      args: process.argv.slice(2),
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    const extra = words[wordsMax];
    if (extra !== undefined) throw new UsageError(`unexpected argument '${extra}' ${hint}`);
    return { values, words };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(`${sayWrong(error.message)} ${hint}`);
  }
}

/** Node's message goes on, over lines, with advice about "--" that does not fit npm's own "--". */
function sayWrong(message: string): string {
  const [, option] = /^Option '(.+?)' argument is ambiguous/.exec(message) ?? [];
  if (option === undefined) return message.split('. ')[0]!;
  return `${option} takes a value that does not begin with a dash`;
}

/**
 * A reader that went away, such as `head`, must not keep a command from stopping what it started.
 */
function unlessClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
}

function leftBy(error: unknown): string {
  return error instanceof Interrupted ? error.message : 'what it had started is stopped';
}

function describe(error: unknown): string {
  if (error instanceof LauncherError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
