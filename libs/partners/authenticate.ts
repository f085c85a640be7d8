import type { PartnerId } from '@triplock/payments';
import { withDeadline } from '@triplock/runtime';
import { apiKeyLengthMax, nameOfApiKey } from './api-key.ts';
import { createKeyMemory, type KeyMemory } from './key-memory.ts';
import { PartnersUnavailableError, type Authentication } from './partners.ts';

/** Asks the store whose key has this SHA-256. */
export type FindKey = (keyHash: Buffer) => Promise<PartnerId | undefined>;

/** Authentication from memory and, when that is too old, from the store. */
export type Authenticator = {
  authenticate(apiKey: string): Promise<Authentication>;
  /** Whether the store was away when it was last asked. */
  stale(): boolean;
  /** Whether any key is known to be good, so that somebody gets in while the store is away. */
  warm(): boolean;
  /** Tells how the store was when somebody else asked it. */
  noteStore(state: 'answers' | 'away'): void;
};

// A revoked key goes on for this long at most, and a busy partner costs one query in that time.
const goodForMs = 5_000;
// A key made a moment ago must not be refused for long because it was tried too early.
const badForMs = 3_000;
// While the store is away, each known key asks for it once in this time.
const askAwayStoreEveryMs = 1_000;
const rememberedKeysMax = 20_000;
// Nobody waits longer for a key: the rest of the caller's three seconds is for the payment. Of a
// known key only the first request waits when the store goes away.
const keyWaitMs = 500;

const refused: Authentication = { outcome: 'refused' };

type State = {
  find: FindKey;
  clock: () => number;
  good: KeyMemory;
  bad: KeyMemory;
  /** Questions under way: one per key at a time, however many requests carry it. */
  asked: Map<string, Promise<Authentication>>;
  away: boolean;
};

/** An authenticator over a store; `clock` gives milliseconds, and tests turn it by hand. */
export function createAuthenticator(find: FindKey, clock: () => number): Authenticator {
  const good = createKeyMemory(rememberedKeysMax);
  const bad = createKeyMemory(rememberedKeysMax);
  const state: State = { find, clock, good, bad, asked: new Map(), away: false };
  return {
    async authenticate(apiKey) {
      if (apiKey.length > apiKeyLengthMax) return refused;
      const key = nameOfApiKey(apiKey);
      const known = good.get(key) ?? bad.get(key);
      if (known !== undefined && clock() < known.trustedUntilMs) return known.said;
      if (known?.said.outcome === 'authenticated') return askAgain(state, key, known.said);
      return askFirst(state, key);
    },
    stale: () => state.away,
    warm: () => !good.isEmpty(),
    noteStore: (word) => void (state.away = word === 'away'),
  };
}

async function askFirst(state: State, key: string): Promise<Authentication> {
  try {
    return await withDeadline(ask(state, key), { ms: keyWaitMs, what: 'the store' });
  } catch (error) {
    state.away = true;
    throw new PartnersUnavailableError('the key is not known here', { cause: error });
  }
}

/** The store's word when it comes in time, else the good word it gave before. */
async function askAgain(state: State, key: string, known: Authentication): Promise<Authentication> {
  const keep = () => {
    const trustedUntilMs = state.clock() + askAwayStoreEveryMs;
    state.good.set(key, { said: known, trustedUntilMs });
    return known;
  };
  const answer = ask(state, key);
  if (state.away) {
    answer.catch(() => undefined); // That the store is still away is no news.
    return keep();
  }
  try {
    return await withDeadline(answer, { ms: keyWaitMs, what: 'the store' });
  } catch {
    state.away = true;
    return keep();
  }
}

function ask(state: State, key: string): Promise<Authentication> {
  const underWay = state.asked.get(key);
  if (underWay !== undefined) return underWay;
  const question = state
    .find(Buffer.from(key, 'base64'))
    .then(
      (partnerId) => {
        state.away = false;
        return remember(state, key, partnerId);
      },
      (error: unknown) => {
        state.away = true;
        throw error;
      },
    )
    .finally(() => state.asked.delete(key));
  state.asked.set(key, question);
  return question;
}

function remember(state: State, key: string, partnerId: PartnerId | undefined): Authentication {
  if (partnerId === undefined) {
    state.good.delete(key);
    state.bad.set(key, { said: refused, trustedUntilMs: state.clock() + badForMs });
    return refused;
  }
  const said: Authentication = { outcome: 'authenticated', partnerId };
  state.bad.delete(key);
  state.good.set(key, { said, trustedUntilMs: state.clock() + goodForMs });
  return said;
}
