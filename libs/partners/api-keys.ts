import { hash, randomBytes } from 'node:crypto';
import {
  currentApiVersion,
  isApiVersion,
  type ApiVersion,
  type KeyScope,
} from '@triplock/contracts';
import type { CardNumbersIn, PartnerId } from '@triplock/payments';
import { withDeadline } from '@triplock/runtime';

/** Whose a key is, and what else a gateway goes by. */
export type KeyHolder = {
  partnerId: PartnerId;
  /** Where what it sends may look like the numbers of payment cards. */
  cardNumbersIn: CardNumbersIn;
  /** What the key is for. */
  scope: KeyScope;
  keyId: string;
  /** What it gets of the HTTP interface when it asks for no version. */
  apiVersion: ApiVersion;
  /** When it ends, milliseconds since 1970; infinite for one that does not. */
  expiresAtMs: number;
};

/** What an API key proves. */
export type Authentication =
  | ({ outcome: 'authenticated' } & KeyHolder)
  /** It was a good key, until then. */
  | { outcome: 'expired'; at: Date }
  | { outcome: 'refused' };

/** Nothing is known about the key, and the store cannot be asked: neither yes nor no is right. */
export class PartnersUnavailableError extends Error {
  override name = 'PartnersUnavailableError';
}

/** Asks the store whose key has this SHA-256. */
export type FindKey = (keyHash: Buffer) => Promise<KeyHolder | undefined>;

/** Authentication from the cache and, when that is too old, from the store. */
export type Authenticator = {
  authenticate(apiKey: string): Promise<Authentication>;
  /** Whether the store could not be reached when it was last asked. */
  stale(): boolean;
  /** Whether any key is known to be good: its partner gets in while the store is unreachable. */
  warm(): boolean;
  /** For whoever asked the store for something else. */
  noteStore(state: 'answers' | 'unreachable'): void;
};

// A revoked key, or what its partner was allowed, goes on for this long at most, and a busy partner
// costs one query in that time.
const goodForMs = 5_000;
// A key made a moment ago must not be refused for long because it was tried too early.
const badForMs = 3_000;
// While the store is unreachable, each known key asks for it once in this time.
const askUnreachableEveryMs = 1_000;
const cachedKeysMax = 20_000;
// Nobody waits longer for a key: the rest of the caller's three seconds is for the payment. Of a
// known key only the first request waits when the store stops answering.
const keyWaitMs = 500;

type Good = Extract<Authentication, { outcome: 'authenticated' }>;

const refused: Authentication = { outcome: 'refused' };

type State = {
  find: FindKey;
  clock: () => number;
  wallClock: () => number;
  onUse: (keyId: string) => void;
  good: KeyCache;
  bad: KeyCache;
  /** Questions under way: one per key at a time, however many requests carry it. */
  asked: Map<string, Promise<Authentication>>;
  isStoreUnreachable: boolean;
};

/**
 * An authenticator over a store; `clock` gives milliseconds and `wallClock` those since 1970, and
 * tests set them. `onUse` is told of a key that is in use, once in 5 s at most: what is asked for
 * so often is known by it to within that, and what the cache answers costs nothing more.
 */
export function createAuthenticator(
  find: FindKey,
  clock: () => number,
  {
    wallClock = Date.now,
    onUse = () => undefined,
  }: { wallClock?: () => number; onUse?: (keyId: string) => void } = {},
): Authenticator {
  const good = createKeyCache(cachedKeysMax);
  const bad = createKeyCache(cachedKeysMax);
  const asked: State['asked'] = new Map();
  const ways = { find, clock, wallClock, onUse };
  const state: State = { ...ways, good, bad, asked, isStoreUnreachable: false };
  return {
    async authenticate(apiKey) {
      if (apiKey.length > apiKeyLengthMax) return refused;
      const key = nameOfApiKey(apiKey);
      const known = good.get(key) ?? bad.get(key);
      if (known !== undefined && clock() < known.trustedUntilMs)
        return asOfNow(state, known.authentication);
      const asking =
        known?.authentication.outcome === 'authenticated'
          ? askAgain(state, key, known.authentication)
          : askFirst(state, key);
      return asOfNow(state, await asking);
    },
    stale: () => state.isStoreUnreachable,
    warm: () =>
      good.some(({ authentication }) => asOfNow(state, authentication) === authentication),
    noteStore: (was) => void (state.isStoreUnreachable = was === 'unreachable'),
  };
}

/** A key expires also while what is known of it is kept, and while the store is unreachable. */
function asOfNow({ wallClock }: State, known: Authentication): Authentication {
  if (known.outcome !== 'authenticated' || known.expiresAtMs === Infinity) return known;
  if (wallClock() < known.expiresAtMs) return known;
  return { outcome: 'expired', at: new Date(known.expiresAtMs) };
}

async function askFirst(state: State, key: string): Promise<Authentication> {
  try {
    return await withDeadline(ask(state, key), { ms: keyWaitMs, what: 'the store' });
  } catch (error) {
    state.isStoreUnreachable = true;
    throw new PartnersUnavailableError('the key is not known here', { cause: error });
  }
}

/** What the store answers in time, else what it did before: that the key is good until it ends. */
async function askAgain(state: State, key: string, known: Good): Promise<Authentication> {
  const keepGood = () => {
    const cached = { authentication: known, trustedUntilMs: state.clock() + askUnreachableEveryMs };
    if (asOfNow(state, known) === known) {
      state.good.set(key, cached);
      state.onUse(known.keyId);
    } else putIntoBad(state, key, cached);
    return known;
  };
  const answer = ask(state, key);
  if (state.isStoreUnreachable) {
    answer.catch(() => undefined); // That the store is still unreachable is no news.
    return keepGood();
  }
  try {
    return await withDeadline(answer, { ms: keyWaitMs, what: 'the store' });
  } catch {
    state.isStoreUnreachable = true;
    return keepGood();
  }
}

function ask(state: State, key: string): Promise<Authentication> {
  const underWay = state.asked.get(key);
  if (underWay !== undefined) return underWay;
  const question = state
    .find(Buffer.from(key, 'base64'))
    .then(
      (holder) => {
        state.isStoreUnreachable = false;
        return keep(state, key, holder);
      },
      (error: unknown) => {
        state.isStoreUnreachable = true;
        throw error;
      },
    )
    .finally(() => state.asked.delete(key));
  state.asked.set(key, question);
  return question;
}

function keep(state: State, key: string, holder: KeyHolder | undefined): Authentication {
  const badUntilMs = state.clock() + badForMs;
  if (holder === undefined) {
    putIntoBad(state, key, { authentication: refused, trustedUntilMs: badUntilMs });
    return refused;
  }
  const authentication: Good = { outcome: 'authenticated', ...holder };
  if (asOfNow(state, authentication) !== authentication) {
    putIntoBad(state, key, { authentication, trustedUntilMs: badUntilMs });
    return authentication;
  }
  state.onUse(holder.keyId);
  state.bad.delete(key);
  state.good.set(key, { authentication, trustedUntilMs: state.clock() + goodForMs });
  return authentication;
}

function putIntoBad({ good, bad }: State, key: string, cached: CachedKey): void {
  good.delete(key);
  bad.set(key, cached);
}

/** When keys were last used, until it is written down. */
export type KeyUses = {
  /** A key is in use. It costs no question. */
  note(keyId: string): void;
  /**
   * Writes down up to a thousand keys, and returns how many more wait. Where none was used the
   * store is called too: it forgets by it what is shown of keys no longer.
   *
   * @throws when the store does not; nothing is lost by it.
   */
  store(): Promise<number>;
};

// Beyond it, keys that nobody has met before are not noted until some were written down.
const notedMax = 20_000;
const storedAtOnce = 1_000;

/**
 * Keeps when keys were last used, by `clock`, which gives milliseconds. What is written down is how
 * long ago that was, so that no clock but the database's counts.
 */
export function openKeyUses(
  store: (keyIds: readonly string[], secondsAgo: readonly number[]) => Promise<unknown>,
  clock: () => number,
): KeyUses {
  const uses = new Map<string, number>();
  return {
    note(keyId) {
      if (uses.size < notedMax || uses.has(keyId)) uses.set(keyId, clock());
    },
    async store() {
      const batch = [...uses].slice(0, storedAtOnce);
      for (const [keyId] of batch) uses.delete(keyId);
      const nowMs = clock();
      try {
        const ids = batch.map(([keyId]) => keyId);
        await store(
          ids,
          batch.map(([, usedMs]) => (nowMs - usedMs) / 1_000),
        );
      } catch (error) {
        // What was used meanwhile is newer.
        for (const [keyId, usedMs] of batch) if (!uses.has(keyId)) uses.set(keyId, usedMs);
        throw error;
      }
      return uses.size;
    },
  };
}

/** What was last known of a key, and until when it is taken as it is. */
export type CachedKey = { authentication: Authentication; trustedUntilMs: number };

/** What is known of keys, the longest unused forgotten first. */
export type KeyCache = {
  get(keyHash: string): CachedKey | undefined;
  set(keyHash: string, cached: CachedKey): void;
  delete(keyHash: string): void;
  some(holds: (cached: CachedKey) => boolean): boolean;
};

/** A cache of at most `keysMax` keys, so that a flood of made-up keys costs a bounded amount. */
export function createKeyCache(keysMax: number): KeyCache {
  // A Map keeps the order of insertion; what is used is put in again at its end.
  const keys = new Map<string, CachedKey>();
  const put = (keyHash: string, cached: CachedKey) => {
    keys.delete(keyHash);
    keys.set(keyHash, cached);
  };
  return {
    get(keyHash) {
      const cached = keys.get(keyHash);
      if (cached !== undefined) put(keyHash, cached);
      return cached;
    },
    set(keyHash, cached) {
      put(keyHash, cached);
      if (keys.size > keysMax) keys.delete(keys.keys().next().value!);
    },
    delete: (keyHash) => void keys.delete(keyHash),
    some: (holds) => [...keys.values()].some(holds),
  };
}

/** Longer texts are refused without being looked up: no key of ours is near this. */
const apiKeyLengthMax = 256;

/**
 * A new API key, `tl_<partner>_<24 random bytes>`. The partner's name in it is for people; what
 * proves it is the whole text.
 */
export function generateApiKey(partnerId: PartnerId): string {
  return `tl_${partnerId}_${randomBytes(24).toString('base64url')}`;
}

/** The version that a key was made under; the current one where none was kept that is known. */
export function versionOf(stored: string | null): ApiVersion {
  return stored !== null && isApiVersion(stored) ? stored : currentApiVersion;
}

/** What is stored and compared instead of a key. */
export function hashApiKey(apiKey: string): Buffer {
  return hash('sha256', apiKey, 'buffer');
}

/** The same in base64, which Node makes faster than bytes: every request is known by it. */
function nameOfApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'base64');
}

// 156 random bits: what is shown of a key makes the rest no easier to find.
const hiddenLength = 26;

/** What may be shown of a key, to recognise it: all but its last 26 characters. */
export function apiKeyPrefix(apiKey: string): string | null {
  return apiKey.length > hiddenLength ? apiKey.slice(0, -hiddenLength) : null;
}
