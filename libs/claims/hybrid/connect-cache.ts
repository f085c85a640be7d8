import { readFileSync } from 'node:fs';
import { bucketCount, type StoredAnswer } from '@triplock/contracts';
import { bucketOf, type Fingerprint, type TxnId } from '@triplock/payments';
import { backoffMs, withDeadline, type Logger } from '@triplock/runtime';
import { Redis } from 'ioredis';

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const scripts = {
  findAnswer: { lua: lua('find-answer.lua'), numberOfKeys: 1 },
  keepAnswer: { lua: lua('keep-answer.lua'), numberOfKeys: 1 },
} as const;
type Scripted = Record<keyof typeof scripts, (...args: (string | number)[]) => Promise<unknown>>;

/** Where answers are cached; the time-out in milliseconds. */
export type CacheOptions = { url: string; namespace: string; logger: Logger; timeoutMs: number };

/** What a look into the cache came to. */
export type Found =
  | { outcome: 'hit'; fingerprint: Fingerprint; answer: StoredAnswer }
  /** The server's time, which an answer's expiry is counted from. */
  | { outcome: 'miss'; serverNowMs: number }
  | { outcome: 'away' };

/** Answers of completed claims in Redis. Nothing here ever rejects: a cache that fails is no cache. */
export type AnswerCache = {
  find(txnId: TxnId): Promise<Found>;
  /** Keeps an answer until a moment of the server's clock. Nobody waits for it. */
  keep(txnId: TxnId, kept: KeptAnswer): void;
  close(): Promise<void>;
};

/** An answer to keep. */
export type KeptAnswer = { fingerprint: Fingerprint; answer: StoredAnswer; untilMs: number };

/** Opens a connection that comes back by itself. The server may be away, and may evict what it likes. */
export function connectCache({ url, namespace, logger, timeoutMs }: CacheOptions): AnswerCache {
  const redis = new Redis(url, {
    scripts: { ...scripts },
    connectionName: 'triplock-answers',
    disableClientInfo: true,
    enableAutoPipelining: true,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // While the server is away there is no cache, at once.
    enableOfflineQueue: false,
    connectTimeout: 1_000,
    commandTimeout: timeoutMs,
    // A server that stands still is left, so that it is waited for once and not by every request.
    socketTimeout: timeoutMs,
    retryStrategy: (attempt) => backoffMs(attempt, { firstMs: 50, maxMs: 1_000 }),
  });
  redis.on('ready', () => logger.info('the cache of answers is there'));
  redis.on('close', () => logger.debug('the cache of answers is away'));
  redis.on('error', (err: Error) => logger.debug({ err }, 'the cache of answers failed'));
  const scripted = redis as unknown as Scripted;
  const keyOf = (txnId: TxnId) => `{${namespace}:${bucketOf(txnId, bucketCount)}}:answer:${txnId}`;

  return {
    async find(txnId) {
      if (redis.status !== 'ready') return { outcome: 'away' };
      try {
        const limit = { ms: timeoutMs, what: 'the cache of answers' };
        return parseFound(await withDeadline(scripted.findAnswer(keyOf(txnId)), limit));
      } catch (err) {
        logger.debug({ err }, 'the cache of answers was not asked in time');
        return { outcome: 'away' };
      }
    },
    keep(txnId, { fingerprint, answer: { status, location, body }, untilMs }) {
      const values = [untilMs, fingerprint, status, location, body];
      scripted.keepAnswer(keyOf(txnId), ...values).catch((err: unknown) => {
        logger.debug({ err, txnId }, 'an answer was not cached');
      });
    },
    async close() {
      await withDeadline(redis.quit(), { ms: timeoutMs, what: 'the cache of answers' }).catch(() =>
        redis.disconnect(),
      );
    },
  };
}

function parseFound(reply: unknown): Found {
  const [serverNowMs, ...kept] = reply as [number, ...string[]];
  if (kept.length === 0) return { outcome: 'miss', serverNowMs };
  const [fingerprint, status, location, body] = kept as [Fingerprint, string, string, string];
  return { outcome: 'hit', fingerprint, answer: { status: Number(status), location, body } };
}
