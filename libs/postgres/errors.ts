/**
 * What an error of PostgreSQL means for the work that met it.
 *
 * - `data`: this input can never be stored (SQLSTATE classes 22 and 23, and 54): bisect,
 *   dead-letter.
 * - `transient`: try the same again later (connection lost, deadlock, serialisation, out of
 *   resources, shutting down, time-out). The outcome of what was under way is unknown.
 * - `bug`: anything else, such as a missing table or a refused right. Retrying will not help, nor
 *   will dropping the input: it needs a person.
 */
export type DatabaseErrorKind = 'data' | 'transient' | 'bug';

/** Sorts an error by its SQLSTATE (PostgreSQL manual, appendix A). */
export function databaseErrorKind(error: unknown): DatabaseErrorKind {
  const code = (error as { code?: unknown }).code;
  // No SQLSTATE begins with E, but codes of the operating system such as EPIPE do.
  if (typeof code !== 'string' || !/^(?!E)[0-9A-Z]{5}$/.test(code)) return 'transient';
  if (/^(22|23|54)/.test(code)) return 'data';
  if (/^(08|40|53|55|57|58|25)/.test(code)) return 'transient';
  return 'bug';
}
