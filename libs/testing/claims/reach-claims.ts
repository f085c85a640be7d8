import { reachDynamoClaims } from './in-dynamodb.ts';
import { reachPostgresClaims } from './in-postgres.ts';
import { reachRedisClaims } from './in-redis.ts';

/** Where a system keeps its claims; the launcher's endpoints fit. */
export type ClaimsPlace = {
  claims: 'redis' | 'postgres' | 'hybrid' | 'dynamodb';
  redis: string;
  /** As a role that may read and change the claims. */
  postgres: string;
  /** DynamoDB Local. */
  dynamodb?: string;
  /** Begins every key, as the gateway's CLAIM_NAMESPACE. */
  namespace: string;
};

/** A claim as its store holds it. */
export type ClaimSeen = {
  state: string;
  partner: string;
  fingerprint: string;
  acceptedAt: Date;
  /** How long it still lives. */
  leftMs: number;
  /** The stored answer, once there is one. */
  answer: { status: number; body: string } | undefined;
};

/**
 * A claim store reached past the gateways: to look at it, and to do to it what time and operators
 * do.
 */
export type ReachedClaims = {
  /** A claim that lives; nothing when there is none. */
  look(txnId: string): Promise<ClaimSeen | undefined>;
  /** Ends a claim's life at once, as 24 hours do; returns whether there was one. */
  expire(txnId: string): Promise<boolean>;
  /** Loses all that the store holds; tells by what, and how many claims and markers it cost. */
  forget(): Promise<Forgotten>;
  /** How many claims and markers it holds. */
  count(): Promise<number>;
  /** Makes its memory so much older, as time without a loss does; tells of how many buckets. */
  ageMemory(ms: number): Promise<number>;
  /** What one of its claims takes in the store, all claims being alike: see each store. */
  bytesPerClaim(): Promise<number>;
  close(): Promise<void>;
};

/** What was done to a store, e.g. `FLUSHALL`, and how many keys it cost. */
export type Forgotten = { command: string; keys: number };

/** Connects to a claim store when it is first asked. */
export function reachClaims(place: ClaimsPlace): ReachedClaims {
  const { claims, namespace } = place;
  switch (claims) {
    case 'redis':
      return reachRedisClaims({ url: place.redis, namespace });
    case 'postgres':
      return reachPostgresClaims({ url: place.postgres, namespace });
    case 'hybrid':
      return withCache(reachPostgresClaims({ url: place.postgres, namespace }), place);
    case 'dynamodb':
      if (place.dynamodb === undefined) throw new Error('it is not told where DynamoDB Local is');
      return reachDynamoClaims({ url: place.dynamodb, namespace });
    default:
      return claims satisfies never;
  }
}

/** What ends in PostgreSQL ends in the cache before it too. */
function withCache(postgres: ReachedClaims, place: ClaimsPlace): ReachedClaims {
  const cache = reachRedisClaims({ url: place.redis, namespace: place.namespace });
  return {
    ...postgres,
    expire: async (txnId) => {
      await cache.expire(txnId);
      return postgres.expire(txnId);
    },
    forget: async () => {
      const [inCache, { command, keys }] = [await cache.forget(), await postgres.forget()];
      return { command: `${inCache.command} and ${command}`, keys };
    },
    close: async () => void (await Promise.all([cache.close(), postgres.close()])),
  };
}
