import * as operator from '@triplock/operator';

/**
 * Something the person at the keyboard can act on: shown as it is, without a stack; exit code 1.
 */
export class LauncherError extends operator.CommandError {
  override name = 'LauncherError';
}

/** A command called in a way it does not know; exit code 2. */
export class UsageError extends LauncherError {
  override name = 'UsageError';
  override readonly exitCode = 2;
}

/** A Ctrl-C, with a sentence about what the command left behind; exit code 130. */
export class Interrupted extends operator.Interrupted {}

/** A part that cannot be had here as a process. */
export class PartMissing extends LauncherError {
  override name = 'PartMissing';
}

/** Names the part and the two ways to get it. */
export function missingPart(part: {
  title: string;
  because: string;
  install: string;
  variable: string;
  example: string;
}): PartMissing {
  return new PartMissing(
    [
      `${part.title}: ${part.because}. Two ways to get it:`,
      `  install it here: ${part.install}`,
      `  or give one that runs elsewhere: ${part.variable}=${part.example}`,
    ].join('\n'),
  );
}

/** No container engine answers where one is needed. */
export class NoEngine extends LauncherError {}
