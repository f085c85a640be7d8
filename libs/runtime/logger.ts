import { pino, type LogFn, type Logger as PinoLogger, type LoggerOptions } from 'pino';
import { createRateLimiter } from './concurrency.ts';

/** Structured logs, one JSON object a line on stdout. Ids and outcomes, never keys or secrets. */
export type Logger = PinoLogger;

/** A logger that names the service and the replica on each line. */
export function createLogger(options: {
  service: string;
  instance: string;
  level: string;
}): Logger {
  const how: LoggerOptions = {
    level: options.level,
    base: { service: options.service, instance: options.instance },
    timestamp: pino.stdTimeFunctions.isoTime,
    hooks: { logMethod: shareLines() },
    serializers: { err: (error: unknown) => describeError(error) },
    redact: {
      paths: ['authorization', 'apiKey', 'webhookSecret', 'headers.authorization', '*.password'],
      censor: '[redacted]',
    },
  };
  // Synchronous, because pino's default leaves a line under way to a thread: a process that ends
  // then loses it or prints it too late, and that line is the reason why it ended.
  return pino(how, pino.destination({ dest: stdout, sync: true }));
}

const stdout = 1;

/**
 * Lines that name one partner: so many a second, and as many as that at once after a rest. More
 * tell a reader nothing new, and what one partner asks for, or its endpoints answer, must not hide
 * what is said of others, nor fill the disk that all of them write to.
 */
const linesOfPartner = { perSecond: 10, burst: 100 };
const toldEveryMs = 1_000;
const infoLevel = 30;

type LogHook = (this: PinoLogger, args: Parameters<LogFn>, method: LogFn, level: number) => void;

/**
 * Gives each partner its share of the lines, of whatever level but `debug`, which somebody has
 * asked for. What is left out is counted, and told by a line of its own within a second.
 */
function shareLines(): LogHook {
  const rate = createRateLimiter(linesOfPartner);
  const leftOut = new Map<string, number>();
  const tell = (logger: PinoLogger) => {
    const told = [...leftOut];
    leftOut.clear();
    for (const [partnerId, linesLeftOut] of told) {
      logger.warn({ partnerId, linesLeftOut }, 'lines that name a partner were left out');
    }
  };
  return function share(args, method, level) {
    const partnerId = level < infoLevel ? undefined : partnerOf(args[0]);
    if (partnerId === undefined || rate.take(partnerId).outcome === 'granted') {
      method.apply(this, args);
      return;
    }
    if (leftOut.size === 0) setTimeout(tell, toldEveryMs, this).unref();
    leftOut.set(partnerId, (leftOut.get(partnerId) ?? 0) + 1);
  };
}

/** The partner that a line names, but for the line that tells what was left out. */
function partnerOf(fields: unknown): string | undefined {
  if (typeof fields !== 'object' || fields === null || 'linesLeftOut' in fields) return undefined;
  const { partnerId } = fields as { partnerId?: unknown };
  return typeof partnerId === 'string' ? partnerId : undefined;
}

/** What a log says of an error. */
export type DescribedError = {
  type: string;
  message: string;
  stack?: string;
  because?: DescribedError;
  errors?: readonly DescribedError[];
} & { [Name in (typeof shownFields)[number]]?: string | number | boolean };

/**
 * Nothing else that drivers put on their errors is logged, for they put there what they worked on:
 * PostgreSQL the row that failed, Redis its command with every argument, an HTTP client the request
 * with its headers. These fields hold the driver's own texts.
 */
const shownFields = [
  ...['code', 'errno', 'syscall', 'signal', 'statusCode', 'requestId'],
  // PostgreSQL's names of what was touched
  // (www.postgresql.org/docs/current/protocol-error-fields.html).
  ...['severity', 'schema', 'table', 'column', 'constraint', 'routine'],
] as const;

/** A longer chain than this is a circle, or nobody reads it. */
const causesMax = 8;

/** An error as a log shows it: name, message, stack, causes, and fields that hold no data. */
function describeError(error: unknown, causesLeft = causesMax): DescribedError {
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
      : { because: describeError(cause, causesLeft - 1) }),
    ...(several.length === 0 || causesLeft === 0
      ? {}
      : { errors: several.map((each) => describeError(each, causesLeft - 1)) }),
  };
}

function fieldsOf(error: Error) {
  const shown = shownFields.flatMap((name) => {
    const value: unknown = Reflect.get(error, name);
    return ['string', 'number', 'boolean'].includes(typeof value) ? [[name, value]] : [];
  });
  return Object.fromEntries(shown) as Partial<Record<(typeof shownFields)[number], string>>;
}
