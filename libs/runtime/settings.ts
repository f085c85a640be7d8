import { readFileSync } from 'node:fs';
import { refusedBy, type Exemption, type Mode } from './modes.ts';

/** How one environment variable becomes a value. `expected` completes the sentence "expected …". */
export type Setting<Value> = {
  readonly expected: string;
  /** The value, or `undefined` when the text is malformed. */
  readonly parse: (text: string) => Value | undefined;
  /** Used when the variable is absent or empty; without one the variable is required. */
  readonly fallback?: Value;
  /** Why production refuses a value, and what to do; `undefined` where it does not. */
  readonly refusedInProduction?: Refused<unknown>;
};

/** Settings by their variables. */
export type SettingsTable = Readonly<Record<string, Setting<unknown>>>;

/** What reading a table gives. */
export type SettingsOf<Table extends SettingsTable> = {
  readonly [Name in keyof Table]: Table[Name] extends Setting<infer Value> ? Value : never;
};

/** Every problem of the settings at once, each naming its variable and never echoing its value. */
export class SettingsError extends Error {
  override name = 'SettingsError';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(`settings cannot be used:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.problems = problems;
  }
}

/**
 * Reads a service's settings table from the environment. `NAME_FILE` names a file that holds the
 * value of `NAME`, so that a secret need not be in an environment, which many can look into.
 * `alsoWrong` are problems that no table can find, such as a setting that another one needs. What
 * `TRIPLOCK_MODE` refuses is a problem as well, where the table has it.
 *
 * @throws SettingsError with all problems, so that a boot fails once and not once per variable.
 */
export function readSettings<const Table extends SettingsTable>(
  environment: NodeJS.ProcessEnv,
  table: Table,
  alsoWrong: readonly string[] = [],
): SettingsOf<Table> {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(table)) {
    const { text, problem } = textOf(environment, name);
    if (problem !== undefined) {
      problems.push(problem);
      continue;
    }
    if (text === '') {
      if (!('fallback' in setting))
        problems.push(`${name} is missing: expected ${setting.expected}`);
      values[name] = setting.fallback;
      continue;
    }
    values[name] = setting.parse(text);
    if (values[name] === undefined) {
      problems.push(`${name} is malformed: expected ${setting.expected}`);
    }
  }
  const mode = values['TRIPLOCK_MODE'] as Mode | undefined;
  if (mode !== undefined) problems.push(...refusedBy(mode, table, { values, environment }));
  problems.push(...alsoWrong);
  if (problems.length > 0) throw new SettingsError(problems);
  return values as SettingsOf<Table>;
}

/** Whether the environment has a setting, by itself or by a file. */
export function isSet(environment: NodeJS.ProcessEnv, name: string): boolean {
  return [name, `${name}_FILE`].some((each) => (environment[each]?.trim() ?? '') !== '');
}

/** What is missing of what a choice, such as `CLAIMS=redis`, cannot do without. */
export function missingFor(
  choice: string,
  { environment, needs }: { environment: NodeJS.ProcessEnv; needs: readonly string[] },
): string[] {
  return needs
    .filter((name) => !isSet(environment, name))
    .map((name) => `${name} is missing: ${choice} needs it`);
}

type Together<Each> = (Each extends unknown ? (one: Each) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

/** Several tables, or what is said of their settings, as one. */
export function together<Each extends object>(several: readonly Each[]): Together<Each> {
  return Object.assign({}, ...several) as Together<Each>;
}

function textOf(
  environment: NodeJS.ProcessEnv,
  name: string,
): { text: string; problem?: undefined } | { text?: undefined; problem: string } {
  const text = environment[name]?.trim() ?? '';
  const file = environment[`${name}_FILE`]?.trim() ?? '';
  if (file === '') return { text };
  if (text !== '') return { problem: `${name} and ${name}_FILE are both set: keep one of them` };
  try {
    return { text: readFileSync(file, 'utf8').trim() };
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    return { problem: `${name}_FILE names a file that cannot be read (${code})` };
  }
}

/** The same setting, with a value for when the variable is absent. */
export function withDefault<Value, const Fallback>(
  setting: Setting<Value>,
  fallback: Fallback,
): Setting<Value | Fallback> {
  return { ...setting, fallback };
}

/** Why production refuses a value, and what to do; `undefined` where it does not. */
type Refused<Value> = (
  value: Value,
  isAllowed: (exemption: Exemption) => boolean,
) => string | undefined;

/** The same setting, with values that production refuses: `why` says what to do instead. */
export function refusedInProduction<Value>(
  setting: Setting<Value>,
  why: Refused<Value>,
): Setting<Value> {
  return { ...setting, refusedInProduction: (value, isAllowed) => why(value as Value, isAllowed) };
}

/** Any text that is not blank. */
export const text: Setting<string> = { expected: 'a text', parse: (value) => value };

/** A TCP port, 1 to 65535. */
export const port: Setting<number> = integer({ min: 1, max: 65_535 });

/** A whole number within limits, both included. */
export function integer(limits: { min: number; max: number }): Setting<number> {
  return {
    expected: `a whole number from ${limits.min} to ${limits.max}`,
    parse: (value) => {
      const number = /^-?\d{1,15}$/.test(value) ? Number(value) : NaN;
      return number >= limits.min && number <= limits.max ? number : undefined;
    },
  };
}

/** One of a few texts. */
export function oneOf<const Word extends string>(words: readonly Word[]): Setting<Word> {
  return {
    expected: `one of ${words.join(', ')}`,
    parse: (value) => words.find((word) => word === value),
  };
}

/** A URL with one of the protocols, e.g. `['redis:', 'rediss:']`. */
export function url(protocols: readonly string[]): Setting<string> {
  return {
    expected: `a URL that starts with ${protocols.map((each) => `${each}//`).join(' or ')}`,
    parse: (value) =>
      URL.canParse(value) && protocols.includes(new URL(value).protocol) ? value : undefined,
  };
}

/** One or more `host:port`, separated by commas. */
export const addresses: Setting<readonly string[]> = {
  expected: 'host:port, several separated by commas',
  parse: (value) => {
    const list = value.split(',').map((each) => each.trim());
    return list.every((each) => /^[^\s:/]+:\d{1,5}$|^\[[0-9a-f:]+\]:\d{1,5}$/i.test(each))
      ? list
      : undefined;
  },
};

/** One `host:port`. */
export const address: Setting<string> = {
  expected: 'host:port',
  parse: (value) => {
    const list = addresses.parse(value);
    return list?.length === 1 ? list[0] : undefined;
  },
};
