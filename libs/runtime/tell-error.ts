/** What a log says of an error. */
export type ToldError = {
  type: string;
  message: string;
  stack?: string;
  because?: ToldError;
  errors?: readonly ToldError[];
} & { [Name in (typeof toldFields)[number]]?: string | number | boolean };

/**
 * What else drivers put on their errors is not told, because they put there what they worked on:
 * PostgreSQL the row that failed, Redis its command with every argument, an HTTP client the request
 * with its headers. These fields hold words of the driver's own.
 */
const toldFields = [
  ...['code', 'errno', 'syscall', 'signal', 'statusCode', 'requestId'],
  // PostgreSQL's names of what was touched
  // (www.postgresql.org/docs/current/protocol-error-fields.html).
  ...['severity', 'schema', 'table', 'column', 'constraint', 'routine'],
] as const;

/** A longer chain than this is a circle, or nobody reads on. */
const causesMax = 8;

/** An error as a log shows it: name, message, stack, causes, and fields that hold no data. */
export function tellError(error: unknown, causesLeft = causesMax): ToldError {
  if (!(error instanceof Error)) return { type: typeof error, message: 'not an error' };
  const { message, stack, cause } = error;
  const several = error instanceof AggregateError ? error.errors : [];
  return {
    type: error.constructor.name,
    message,
    ...(stack === undefined ? {} : { stack }),
    ...fieldsOf(error),
    ...(cause === undefined || causesLeft === 0
      ? {}
      : { because: tellError(cause, causesLeft - 1) }),
    ...(several.length === 0 || causesLeft === 0
      ? {}
      : { errors: several.map((each) => tellError(each, causesLeft - 1)) }),
  };
}

function fieldsOf(error: Error) {
  const told = toldFields.flatMap((name) => {
    const value: unknown = Reflect.get(error, name);
    return ['string', 'number', 'boolean'].includes(typeof value) ? [[name, value]] : [];
  });
  return Object.fromEntries(told) as Partial<Record<(typeof toldFields)[number], string>>;
}
