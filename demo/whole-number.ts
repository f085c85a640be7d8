import { UsageError } from '@triplock/launcher';

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
