import type { Logger } from '@triplock/runtime';
import type { logCreator } from 'kafkajs';

/**
 * What kafkajs says, at level debug: it reports every try of every retry as an error. What an
 * operator must know is logged by those who use it, once and in their words.
 */
export function logToPino(logger: Logger): logCreator {
  return () => (entry) => {
    const { message, timestamp: _timestamp, logger: _logger, ...details } = entry.log;
    logger.debug({ kafkajs: { namespace: entry.namespace, ...details } }, message);
  };
}
