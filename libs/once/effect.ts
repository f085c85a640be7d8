import type { OwnerToken } from '@triplock/claims';

/** Which effect, and for which request. */
export type OnceKey = {
  /** What the key belongs to: a consumer, a route, a job. */
  scope: string;
  key: string;
  /** Tells a repeat from a key that was reused: a hash of everything the effect depends on. */
  fingerprint: string;
  /** How long the key is kept from the first start on; longer than any repeat may come late. */
  keepMs: number;
};

/** What asking for an effect came to. The result is what JSON made of it, also the first time. */
export type OnceOutcome<Result> =
  /** It happened now. */
  | { outcome: 'done'; result: Result }
  /** It happened before: the same result. */
  | { outcome: 'replayed'; result: Result }
  /** Another one is at work. */
  | { outcome: 'in-flight'; leaseLeftMs: number }
  /** The key belongs to another fingerprint. */
  | { outcome: 'reused' };

/** What an effect gets, so that its target can refuse a late one. */
export type EffectContext = {
  token: OwnerToken;
  /**
   * Grows with every start: what the effect writes to should refuse a smaller one than it has seen.
   */
  fence: bigint;
  /** Aborted when the lease is lost. */
  signal: AbortSignal;
};

/**
 * An effect that must not be tried again: thrown by it, kept under the key, and thrown alike to
 * every repeat. Anything else that an effect throws counts as passing: the key is free for the next
 * try.
 */
export class EffectFailedError extends Error {
  override name = 'EffectFailedError';
  /** For programs, e.g. `card_declined`. */
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** An effect in JSON is at most so long, in bytes of UTF-8. */
export const resultBytesMax = 256 * 1024;

/**
 * What is kept of a result.
 *
 * @throws EffectFailedError when it is too long or not JSON: the effect has happened, and a repeat
 * would have it again to no better end.
 */
export function encodeResult(result: unknown): string {
  // An effect without a result has one all the same: JSON knows no undefined.
  const text = textOf(result === undefined ? null : result);
  if (Buffer.byteLength(text) > resultBytesMax) {
    throw new EffectFailedError('result_too_long', `a result has ${resultBytesMax} bytes at most`);
  }
  return text;
}

function textOf(result: unknown): string {
  try {
    const text = JSON.stringify(result) as string | undefined;
    if (text !== undefined) return text;
  } catch (error) {
    // A bigint, a ring, or a toJSON that throws.
    const why = `a result has to be JSON: ${error instanceof Error ? error.message : String(error)}`;
    throw new EffectFailedError('result_not_json', why);
  }
  throw new EffectFailedError('result_not_json', `a result has to be JSON, not a ${typeof result}`);
}

/** What is kept of a failure. */
export function encodeFailure({ code, message }: EffectFailedError): string {
  return JSON.stringify({ code, message });
}

/** The failure as it was kept. */
export function decodeFailure(text: string): EffectFailedError {
  const { code, message } = JSON.parse(text) as { code: string; message: string };
  return new EffectFailedError(code, message);
}
