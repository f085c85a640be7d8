import { pino, type Logger as PinoLogger } from 'pino';

/** Structured logs, one JSON object a line on stdout. Ids and outcomes, never keys or secrets. */
export type Logger = PinoLogger;

/** A logger that says which service and which replica speaks. */
export function createLogger(options: {
  service: string;
  instance: string;
  level: string;
}): Logger {
  return pino({
    level: options.level,
    base: { service: options.service, instance: options.instance },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: ['authorization', 'apiKey', 'webhookSecret', 'headers.authorization', '*.password'],
      censor: '[redacted]',
    },
  });
}
