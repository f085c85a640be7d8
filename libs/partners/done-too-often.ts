/** The partner has done so as often within a day as it may: nothing was done. */
export class DoneTooOftenError extends Error {
  override name = 'DoneTooOftenError';

  /** When there is room again, 1 at least. */
  readonly retryAfterSeconds: number;

  constructor(retryAfterSeconds: number, options: ErrorOptions) {
    super('a partner has done so as often within a day as it may', options);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** What `partners.refuse_too_often` throws. */
const tooOften = 'TL429';

/**
 * What a database rejected with, told as what it says of a partner: a `catch` of what adds rows to
 * those that are kept.
 *
 * @throws DoneTooOftenError, or the error as it came.
 */
export function tellTooOften(error: unknown): never {
  const { code, detail } = error as { code?: unknown; detail?: unknown };
  if (code !== tooOften) throw error;
  throw new DoneTooOftenError(Math.max(1, Number(detail)), { cause: error });
}
