import { readFileSync } from 'node:fs';
import { redisPackage, redisSpan } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
} from '@triplock/claims-postgres';
import { backoffMs, inSpan, withDeadline, type Logger } from '@triplock/runtime';

/** PostgreSQL and the cache before it; times in milliseconds. */
export type HybridClaimsOptions = PostgresClaimsOptions & {
  /** The Redis of the cache. It may evict. */
  cacheUrl: string;
  /** How long a request waits for the cache; 100 by default: a retry is worth no more. */
  cacheTimeoutMs?: number;
};

/**
 * Guard 1 on PostgreSQL with Redis before it. PostgreSQL decides every claim; Redis answers
 * retries, which come in storms, without asking it.
 *
 * Only what answers are made of is cached, of completed claims, by the first retry that misses it,
 * and only a request with its own fingerprint gets it. A completed claim never changes, so what the
 * cache holds was true and stays true as long as the claim lives; it expires with it. PostgreSQL
 * decides everything else, a fingerprint that differs included: where the two disagree it is right.
 * Losing the cache costs one more look per answer and changes none.
 *
 * @throws PostgresDurabilityError when PostgreSQL is there and a crash may lose claims.
 */
export async function openHybridClaims(options: HybridClaimsOptions): Promise<PostgresClaims> {
  const { cacheUrl: url, cacheTimeoutMs: timeoutMs = 100, namespace, logger } = options;
  const postgres = await openPostgresClaims(options);
  const cache = connectCache({ url, logger, timeoutMs });
  const keyOf = (txnId: TxnId) => `{${namespace}:${bucketOf(txnId, bucketCount)}}:answer:${txnId}`;

  return {
    ...postgres,
    async claim(request) {
      const { txnId, fingerprint } = request;
      const found = await cache.find(keyOf(txnId));
      if (found.outcome === 'hit' && found.fingerprint === fingerprint) {
        const { acceptedAtMs, responseVersion } = JSON.parse(found.answer) as Cached;
        return { outcome: 'completed', acceptedAt: new Date(acceptedAtMs), responseVersion };
      }
      const decided = await postgres.claim(request);
      if (found.outcome === 'miss' && decided.outcome === 'completed') {
        const { acceptedAt, responseVersion, lifeLeftMs } = decided;
        const cached: Cached = { acceptedAtMs: acceptedAt.getTime(), responseVersion };
        // The cache's time is from before PostgreSQL was asked, so this ends no later than the
        // claim.
        const untilMs = found.serverNowMs + Math.floor(lifeLeftMs);
        cache.keep(keyOf(txnId), { fingerprint, answer: JSON.stringify(cached), untilMs });
      }
      return decided;
    },
    async close() {
      await Promise.all([cache.close(), postgres.close()]);
    },
  };
}

/** What the answer to a completed claim is made of, besides the request. */
type Cached = { acceptedAtMs: number; responseVersion: number };

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const scripts = {
  findAnswer: { lua: lua('find-answer.lua'), numberOfKeys: 1 },
  keepAnswer: { lua: lua('keep-answer.lua'), numberOfKeys: 1 },
} as const;
type Scripted = Record<keyof typeof scripts, (...args: (string | number)[]) => Promise<unknown>>;

/** Where answers are cached; the time-out in milliseconds. */
export type CacheOptions = { url: string; logger: Logger; timeoutMs: number };

/** What a look into the cache came to. */
export type Found =
  | { outcome: 'hit'; fingerprint: string; answer: string }
  /** The server's time, which an answer's expiry is counted from. */
  | { outcome: 'miss'; serverNowMs: number }
  | { outcome: 'away' };

/**
 * Answers that never change, as texts in Redis. Nothing here ever rejects: a cache that fails is no
 * cache.
 */
export type AnswerCache = {
  find(key: string): Promise<Found>;
  /** Keeps an answer until a moment of the server's clock. Nobody waits for it. */
  keep(key: string, kept: KeptAnswer): void;
  close(): Promise<void>;
};

/** An answer to keep. */
export type KeptAnswer = { fingerprint: string; answer: string; untilMs: number };

/**
 * Opens a connection that comes back by itself. The server may be away, and may evict what it
 * likes.
 */
export function connectCache({ url, logger, timeoutMs }: CacheOptions): AnswerCache {
  const { Redis } = redisPackage();
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
  redis.on('ready', () => logger.info('the cache of answers is connected'));
  redis.on('close', () => logger.debug('the cache of answers is disconnected'));
  redis.on('error', (err: Error) => logger.debug({ err }, 'the cache of answers failed'));
  const scripted = redis as unknown as Scripted;

  return {
    async find(key) {
      if (redis.status !== 'ready') return { outcome: 'away' };
      try {
        const limit = { ms: timeoutMs, what: 'the cache of answers' };
        const look = () => withDeadline(scripted.findAnswer(key), limit);
        return parseFound(await inSpan(redisSpan('findAnswer'), look));
      } catch (err) {
        logger.debug({ err }, 'the cache of answers was not asked in time');
        return { outcome: 'away' };
      }
    },
    keep(key, { fingerprint, answer, untilMs }) {
      scripted.keepAnswer(key, untilMs, fingerprint, answer).catch((err: unknown) => {
        logger.debug({ err, key }, 'an answer was not cached');
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
  const [serverNowMs, fingerprint, answer] = reply as [number, string?, string?];
  if (fingerprint === undefined || answer === undefined) return { outcome: 'miss', serverNowMs };
  return { outcome: 'hit', fingerprint, answer };
}
