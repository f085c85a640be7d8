import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { loadStatements, type Database } from '@triplock/postgres';
import type { Config } from './config.ts';
import type { Role, Session, Sessions } from './console.ts';

const sql = loadStatements(import.meta.url, 'sessions.sql', [
  'whoseToken',
  'beginSession',
  'whoseSession',
  'endSession',
]);

/** A token is 256 random bits: the limit keeps guessing off the database, not from succeeding. */
const triesMax = 10;
const triesPerMs = 60_000;
/** Addresses that are remembered at once; beyond it the oldest is forgotten. */
const addressesMax = 10_000;

type Found = { operator: string; role: Role };

/** @param database as triplock_console; `now` in milliseconds. */
export function openSessions(database: Database, now: () => number): Sessions {
  const tries = countTries(now);
  return {
    async logIn(token, address) {
      if (tries.areTooMany(address)) return { outcome: 'too-many-tries' };
      const secret = randomBytes(32).toString('base64url');
      const values = [sha256(secret), sha256(token)];
      const [begun] = await database.query<{ operator: string }>(sql.beginSession, values);
      if (begun !== undefined) return { outcome: 'logged-in', secret, operator: begun.operator };
      tries.note(address);
      return { outcome: 'unknown-token' };
    },
    async bySecret(secret) {
      const [found] = await database.query<Found>(sql.whoseSession, [sha256(secret)]);
      return found && { ...found, csrf: csrfOf(secret), login: 'required' };
    },
    async byToken(token, address) {
      if (tries.areTooMany(address)) return 'too-many-tries';
      const [found] = await database.query<Found>(sql.whoseToken, [sha256(token)]);
      if (found !== undefined) return { ...found, csrf: '', login: 'required' };
      tries.note(address);
      return undefined;
    },
    logOut: async (secret) => void (await database.query(sql.endSession, [sha256(secret)])),
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
 * A new token of an operator, to be shown once, and what of it is kept: the hash of what the console
 * sends to the database, so that whoever reads it there can send nothing that fits.
 */
export function newToken(): { token: string; kept: Buffer } {
  const token = `op_${randomBytes(32).toString('base64url')}`;
  return { token, kept: sha256(sha256(token)) };
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

/** Failed tries of each address in the last minute. */
function countTries(now: () => number) {
  const failed = new Map<string, number[]>();
  const recent = (address: string) =>
    (failed.get(address) ?? []).filter((at) => at > now() - triesPerMs);
  return {
    areTooMany: (address: string) => recent(address).length >= triesMax,
    note(address: string) {
      const tries = [...recent(address), now()];
      failed.delete(address);
      failed.set(address, tries);
      if (failed.size > addressesMax) failed.delete(failed.keys().next().value!);
    },
  };
}
