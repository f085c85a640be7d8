import { pino, type Logger as PinoLogger, type LoggerOptions } from 'pino';
import { tellError } from './tell-error.ts';

/** Structured logs, one JSON object a line on stdout. Ids and outcomes, never keys or secrets. */
export type Logger = PinoLogger;

/** A logger that says which service and which replica speaks. */
export function createLogger(options: {
  service: string;
  instance: string;
  level: string;
}): Logger {
  const how: LoggerOptions = {
    level: options.level,
    base: { service: options.service, instance: options.instance },
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: (error: unknown) => tellError(error) },
    redact: {
      paths: ['authorization', 'apiKey', 'webhookSecret', 'headers.authorization', '*.password'],
      censor: '[redacted]',
    },
  };
  // Synchronous, because pino's default leaves a line under way to a thread: a process that ends
  // then loses it or prints it after its last word, and that line is the reason why it ended.
  return pino(how, pino.destination({ dest: stdout, sync: true }));
}

const stdout = 1;
