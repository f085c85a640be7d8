import { UsageError } from '@triplock/launcher';

const form = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/**
 * A time as RFC 3339 writes it, or a day, which begins in UTC.
 *
 * @throws UsageError when the text is neither, or lies ahead.
 */
export function parseSince(text: string | undefined, now: Date): Date {
  const time = new Date(text !== undefined && form.test(text) ? text : NaN);
  if (Number.isNaN(time.getTime())) {
    throw new UsageError('--since takes a time such as 2026-11-20T08:00:00Z, or a day');
  }
  if (time >= now) throw new UsageError(`--since lies ahead: it is ${now.toISOString()}`);
  return time;
}
