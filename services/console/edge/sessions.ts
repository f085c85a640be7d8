import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { loadStatements, type Database } from '@triplock/postgres';
import { openSlots } from '@triplock/runtime';
import type { Config } from '../config.ts';
import { Refusal, type Session, type Sessions } from '../console.ts';
import { type Role } from '@triplock/inspect';

const sql = loadStatements(import.meta.url, 'sessions.sql', [
  'whoseToken',
  'beginSession',
  'whoseSession',
  'endSession',
]);

/**
 * Of each address; those who wait hold a connection each, and are looked up in a few milliseconds.
 */
const waitingMax = 16;
/** What was good is remembered of so many, 44 bytes each. */
const knownMax = 10_000;

type Found = { operator: string; role: Role };

/** @param database as triplock_console. */
export function openSessions(database: Database): Sessions {
  const inTurn = strangersInTurn();
  /** Whose it is, by a statement that takes the hash of what was shown. */
  const whose = (statement: string, shown: string, address: string) =>
    inTurn({ shown, address }, async () => {
      const [found] = await database.query<Found>(statement, [sha256(shown)]);
      return found;
    });
  return {
    async logIn(token, address) {
      const secret = randomBytes(32).toString('base64url');
      const begun = await inTurn({ shown: token, address }, async () => {
        const values = [sha256(secret), sha256(token)];
        const [row] = await database.query<{ operator: string }>(sql.beginSession, values);
        return row;
      });
      if (begun === undefined) return { outcome: 'unknown-token' };
      return { outcome: 'logged-in', secret, operator: begun.operator };
    },
    async bySecret(secret, address) {
      const found = await whose(sql.whoseSession, secret, address);
      return found && { ...found, csrf: csrfOf(secret), login: 'required' };
    },
    async byToken(token, address) {
      const found = await whose(sql.whoseToken, token, address);
      return found && { ...found, csrf: '', login: 'required' };
    },
    logOut: async (secret) => void (await database.query(sql.endSession, [sha256(secret)])),
  };
}

/** What somebody shows to be let in, and where it came from. */
type Shown = { shown: string; address: string };

/**
 * Lets whoever shows something look it up, so that wrong ones are in nobody's way. A token is 256
 * random bits and is not guessed, however often one tries: a wrong one locks nobody out, who may
 * share the address of a proxy with who sends it. What it costs is bounded instead. What was good
 * the last time is looked up at once; all else one after the other, in turn by address, so that
 * strangers leave connections to the database to those who are known; and where so many of an
 * address wait already, one more is refused at once, and may be right the next time.
 *
 * @throws Refusal `rate_limited` where so many wait.
 */
function strangersInTurn() {
  const known = new Set<string>();
  const slots = openSlots(1);
  const waiting = new Map<string, number>();
  const keyOf = (shown: string) => sha256(shown).toString('base64');

  async function waitForTurn(address: string): Promise<void> {
    const before = waiting.get(address) ?? 0;
    if (before >= waitingMax) {
      throw new Refusal(
        'rate_limited',
        'Too many unknown tokens from here wait to be looked up: try again.',
      );
    }
    waiting.set(address, before + 1);
    await slots.take(address);
    const left = waiting.get(address)! - 1;
    if (left === 0) waiting.delete(address);
    else waiting.set(address, left);
  }

  return async <Row>(
    { shown, address }: Shown,
    lookUp: () => Promise<Row | undefined>,
  ): Promise<Row | undefined> => {
    const key = keyOf(shown);
    const isStranger = !known.has(key);
    if (isStranger) await waitForTurn(address);
    try {
      const found = await lookUp();
      // Behind those that were used before it.
      known.delete(key);
      if (found !== undefined) known.add(key);
      if (known.size > knownMax) known.delete(known.values().next().value!);
      return found;
    } finally {
      if (isStranger) slots.release();
    }
  };
}

/** Where nobody logs in: whoever comes is `demo`, by a token that lasts as the process does. */
export function openSession(): Session {
  const csrf = csrfOf(randomBytes(32).toString('base64url'));
  return { operator: 'demo', role: 'admin', csrf, login: 'none' };
}

/** Whether what a form brought is the token of this session. */
export function isTokenOf({ csrf }: Session, given: string): boolean {
  return timingSafeEqual(sha256(csrf), sha256(given));
}

/**
 * The cookie that holds a session's secret, or that ends one. Over HTTPS its name keeps every
 * other host and path from setting it (RFC 6265bis, section 4.1.3.2).
 */
export function sessionCookie(config: Config, secret: string | undefined): string {
  const end = secret === undefined ? '; Max-Age=0' : '';
  const secure = isSecure(config) ? '; Secure' : '';
  return `${cookieName(config)}=${secret ?? ''}; Path=/; HttpOnly; SameSite=Strict${secure}${end}`;
}

/** The secret in a request's `Cookie`; `undefined` where there is none. */
export function secretIn(config: Config, cookies: string | undefined): string | undefined {
  const start = `${cookieName(config)}=`;
  const found = (cookies ?? '').split(/; */).find((each) => each.startsWith(start));
  return found?.slice(start.length);
}

function cookieName(config: Config): string {
  return isSecure(config) ? '__Host-triplock' : 'triplock';
}

function isSecure({ CONSOLE_ORIGIN: origin }: Config): boolean {
  return origin?.startsWith('https:') ?? false;
}

/** Follows from the secret, so that every page of a session has it, and no page of another. */
function csrfOf(secret: string): string {
  return createHash('sha256').update(`csrf ${secret}`).digest('base64url');
}

function sha256(text: string | Buffer): Buffer {
  return createHash('sha256').update(text).digest();
}
