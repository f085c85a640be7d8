import { Type } from '../schema.ts';
import type { FieldProblem } from './problem.ts';
import { isDay } from './settlement.ts';
import { fieldProblem } from './validation.ts';

/** Completes the sentence "expected …". */
const timeMeaning =
  'a time as RFC 3339 writes it, with `T`, seconds and an offset of at most 14 hours, e.g. ' +
  '2026-01-02T03:04:05Z';

// PostgreSQL takes no offset that RFC 3339 allows beyond 16 hours, and no clock has one beyond 14.
const timePattern =
  '^[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d' +
  '(\\.\\d{1,9})?(Z|[+-](0\\d|1[0-3]):[0-5]\\d|[+-]14:00)$';

/** A time in a request; {@link noDayIn} also knows how long a month is. */
export const timeSchema = Type.String({
  format: 'date-time',
  pattern: timePattern,
  description: timeMeaning,
});

/**
 * The first millisecond that is not before a time in the form of {@link timeSchema}, so that what
 * has milliseconds is compared with it as with the time itself.
 */
export function timeOf(text: string): Date {
  const finer = /\.\d{3}(\d+)/.exec(text)?.[1] ?? '';
  const ms = Date.parse(text.replace(/(\.\d{3})\d+/, '$1'));
  return new Date(/[1-9]/.test(finer) ? ms + 1 : ms);
}

/** What is wrong with times whose day the calendar does not have, by their names. */
export function noDayIn(times: Readonly<Record<string, string | undefined>>): FieldProblem[] {
  return Object.entries(times)
    .filter(([, time]) => time !== undefined && !isDay(time.slice(0, 'yyyy-mm-dd'.length)))
    .map(([name]) => fieldProblem([name], `expected ${timeMeaning}`));
}
