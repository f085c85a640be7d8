import { parseArgs, type ParseArgsConfig } from 'node:util';

/**
 * Something the person at the keyboard can act on: shown as it is, without a stack; exit code 1.
 */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly exitCode: number = 1;
}

/** A command called in a way it does not know, or that lacks what it needs; exit code 2. */
export class UsageError extends CommandError {
  override name = 'UsageError';
  override readonly exitCode = 2;
}

/** A Ctrl-C, with a sentence about what the command left behind; exit code 130. */
export class Interrupted extends Error {
  override name = 'AbortError';
}

/** Options as `parseArgs` takes them. */
export type Options = NonNullable<ParseArgsConfig['options']>;
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
 * Runs a command and sets the process's exit code: 0 done, 1 failed, 2 called in a wrong way, 130
 * interrupted. What a person can act on is printed as it is, anything else with its stack.
 */
export async function runCommand<const Wanted extends Options>(
  command: Command<Wanted>,
  args: readonly string[] = process.argv.slice(2),
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
    const { values, words } = parse(command, args);
    if (values['help']) {
      process.stdout.write(`${command.help.trim()}\n`);
      return;
    }
    await command.run({ values: values as Values<Wanted>, words, interrupted });
  } catch (error) {
    const stopped = controller.signal.aborted && (error as Error).name === 'AbortError';
    process.exitCode = stopped ? 130 : error instanceof CommandError ? error.exitCode : 1;
    const why = stopped ? `interrupted; ${leftBy(error)}` : describe(error);
    process.stderr.write(`triplock ${command.name}: ${why}\n`);
  }
}

/** What a command cannot do without was not given: `--role is missing: one of viewer, admin`. */
export function isMissing(what: string, takes: string): UsageError {
  return new UsageError(`${what} is missing: ${takes}`);
}

/**
 * A word of a few, such as the value of an option.
 *
 * @throws UsageError that names them all when it is none of them, or not given.
 */
export function oneOf<const Word extends string>(
  text: string | undefined,
  { what, words }: { what: string; words: readonly Word[] },
): Word {
  if (text === undefined) throw isMissing(what, `one of ${words.join(', ')}`);
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw new UsageError(`${what} takes one of ${words.join(', ')}, not '${text}'`);
}

/** An option that takes a whole number. */
export type NumberOption = { option: string; min: number; max: number };

/**
 * The number after an option; nothing when the option is not given.
 *
 * @throws UsageError when it is no whole number or out of range.
 */
export function wholeNumber(text: string | undefined, wanted: NumberOption): number | undefined {
  const { option, min, max } = wanted;
  if (text === undefined) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new UsageError(`--${option} takes a whole number from ${min} to ${max}, not '${text}'`);
}

const timeForm =
  /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/**
 * The time after an option, as RFC 3339 writes it, or a day, which begins in UTC; nothing when the
 * option is not given.
 *
 * @throws UsageError when it is no time.
 */
export function timeOf(text: string | undefined, { option }: { option: string }): Date | undefined {
  if (text === undefined) return undefined;
  const time = new Date(timeForm.test(text) ? text : Number.NaN);
  if (!Number.isNaN(time.getTime())) return time;
  throw new UsageError(`--${option} takes a time such as 2026-11-20T08:00:00Z, or a day`);
}

/** What an error says, with what its causes say; one line for people. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A name with several addresses, such as localhost, fails once for each and says nothing itself.
  if (error instanceof AggregateError) return [...new Set(error.errors.map(wordsOf))].join(', ');
  const { message, name, cause } = error;
  return cause instanceof Error ? `${message}: ${wordsOf(cause)}` : message || name;
}

function parse({ name, options, wordsMax = 0 }: Command<Options>, args: readonly string[]) {
  const hint = `(npm run ${name} -- --help)`;
  try {
    const { values, positionals: words } = parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    const extra = words[wordsMax];
    if (extra !== undefined) throw new UsageError(`unexpected argument '${extra}' ${hint}`);
    return { values, words };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(`${whatIsWrong(error.message)} ${hint}`);
  }
}

/** Node's message goes on, over lines, with advice about "--" that does not fit npm's own "--". */
function whatIsWrong(message: string): string {
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
  if (error instanceof CommandError) return error.message;
  if (!(error instanceof Error)) return String(error);
  const [words, stack] = [wordsOf(error), error.stack ?? error.message];
  return stack.includes(words) ? stack : `${words}\n${stack}`;
}
