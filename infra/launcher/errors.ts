import { CommandError } from '@triplock/command';

/** A part that cannot be had here as a process. */
export class PartMissing extends CommandError {
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
export class NoEngine extends CommandError {}
