import type { SpanSpec } from '@triplock/runtime';

/**
 * A span of our own, and not by the instrumentation of ioredis: that one makes a command's span
 * when the pipeline that many requests share is written, in the context of whichever came first,
 * and writes the arguments of a script into it, which are the payment.
 */
export function redisSpan(script: string): SpanSpec {
  const attributes = { 'db.system.name': 'redis', 'db.query.summary': script };
  return { name: script, kind: 'client', attributes };
}
