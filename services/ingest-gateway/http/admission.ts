import type { ServerResponse } from 'node:http';
import { isIP, isIPv6, type Socket } from 'node:net';
import { Problem } from '@triplock/contracts';
import { PartnersUnavailableError, type Authentication, type Partners } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import { unknownYet } from './problems.ts';

/** Who may ask for anything, and how often. */
export type Admission = {
  /** Reject with a `Problem('unavailable', …)` when it cannot be known whose key it is. */
  authenticate(apiKey: string): Promise<Authentication>;
  /** All requests of a partner. */
  partnerRate: RateLimiter;
  /** Requests without a valid key from one address. */
  failureRate: RateLimiter;
};

// RFC 6750, section 2.1; schemes are case-insensitive (RFC 9110, section 11.1).
const bearerToken = /^bearer +([\w.~+/-]+=*)$/i;

/**
 * A hook that lets only known API keys in, no more often than their rate, and sets on the request
 * whose it is and what that partner may. A missing, malformed or unknown key gets the same 401, so
 * that an answer says nothing about keys, and 429 once its address has sent too many.
 *
 * The address is looked at only after the key was found to be none: a partner whose neighbour
 * behind one address sends bad keys is served all the same.
 */
export function authenticateRequest({ authenticate, partnerRate, failureRate }: Admission) {
  return async (request: FastifyRequest): Promise<void> => {
    if (request.routeOptions.config.access === 'public') return;
    const [, apiKey] = bearerToken.exec(request.headers.authorization ?? '') ?? [];
    const authentication = apiKey === undefined ? undefined : await authenticate(apiKey);
    if (authentication?.outcome !== 'authenticated') {
      admit(failureRate, callerAddress(request));
      throw new Problem('unauthorized', 'Send a valid API key: Authorization: Bearer <api key>.', {
        headers: { 'www-authenticate': 'Bearer' },
      });
    }
    admit(partnerRate, authentication.partnerId);
    request.partnerId = authentication.partnerId;
    request.cardNumbersAllowed = authentication.cardNumbersAllowed;
  };
}

function admit(rate: RateLimiter, who: string): void {
  const taken = rate.take(who);
  if (taken.outcome === 'granted') return;
  throw new Problem('rate_limited', 'Send requests more slowly; nothing was done with this one.', {
    headers: { 'Retry-After': `${taken.retryAfterSeconds}` },
  });
}

/** Partners say whose key it is, the settings how often it may come. */
export function openAdmission(partners: Partners, config: Config): Admission {
  return {
    authenticate: authenticatePartner(partners),
    partnerRate: createRateLimiter({
      perSecond: config.RATE_LIMIT_PER_SECOND,
      burst: config.RATE_LIMIT_BURST,
    }),
    failureRate: createRateLimiter({
      perSecond: config.FAILED_AUTHENTICATION_PER_SECOND,
      burst: config.FAILED_AUTHENTICATION_BURST,
    }),
  };
}

/** Asks the partners whose key it is. Not knowing is neither yes nor no: 503. */
function authenticatePartner(partners: Partners) {
  return async (apiKey: string): Promise<Authentication> => {
    try {
      return await partners.authenticate(apiKey);
    } catch (error) {
      throw error instanceof PartnersUnavailableError ? unknownYet() : error;
    }
  };
}

/**
 * Whom a failed authentication is counted to: the caller's IPv4 address, or its IPv6 network of 64
 * bits, because one machine has all addresses of such a network to choose from. What a proxy says
 * counts only when it is trusted and says an address.
 */
export function callerAddress({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string {
  const address = isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  return isIPv6(address) ? networkOf(address) : address;
}

function networkOf(address: string): string {
  // The URL standard writes an address in one form: lower case, hexadecimal, shortest.
  const [zone] = address.split('%', 1);
  const { hostname } = new URL(`http://[${zone}]`);
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::');
  const before = head.split(':').filter((group) => group !== '');
  const after = tail.split(':').filter((group) => group !== '');
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}

/** Counts what each caller does, and says which one does too much. */
export type RateLimiter = { take(who: string): Taken };

/** `limited`: nothing was taken, and there is something again in so many seconds, 1 at least. */
export type Taken = { outcome: 'granted' } | { outcome: 'limited'; retryAfterSeconds: number };

/** So many a second, and so many at once after a rest. */
export type Rate = { perSecond: number; burst: number };

// Whoever is forgotten begins with a full burst. At about 100 bytes each it is a megabyte.
const rememberedMax = 10_000;

const granted: Taken = { outcome: 'granted' };

/**
 * A token bucket for each name, in the memory of this process: several gateways grant as many times
 * as much together. `clock` gives milliseconds; tests set it.
 *
 * A limit shared through Redis would cost every request a round trip to it, to be exact about a
 * number that is there to protect this process.
 */
export function createRateLimiter(
  { perSecond, burst }: Rate,
  clock: () => number = () => performance.now(),
): RateLimiter {
  const buckets = new Map<string, { tokens: number; atMs: number }>();
  const bucketOf = (who: string, nowMs: number) => {
    const known = buckets.get(who);
    if (known !== undefined) return known;
    // A Map keeps the order of insertion, so the first key is the oldest.
    if (buckets.size >= rememberedMax) buckets.delete(buckets.keys().next().value!);
    const bucket = { tokens: burst, atMs: nowMs };
    buckets.set(who, bucket);
    return bucket;
  };
  return {
    take(who) {
      const nowMs = clock();
      const bucket = bucketOf(who, nowMs);
      const grown = ((nowMs - bucket.atMs) * perSecond) / 1_000;
      bucket.tokens = Math.min(burst, bucket.tokens + grown);
      bucket.atMs = nowMs;
      if (bucket.tokens >= 1) {
        bucket.tokens -= 1;
        return granted;
      }
      const retryAfterSeconds = Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond));
      return { outcome: 'limited', retryAfterSeconds };
    },
  };
}

/** How many requests may be under way at once: read, at work, or waiting for a final state. */
export type InFlightLimits = {
  /** Of authenticated partners together. */
  requestsMax: number;
  perPartnerMax: number;
  /** Sent on one connection without waiting for answers. */
  perConnectionMax: number;
};

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Problem) => void) => void;

/** Hooks that refuse what is too much at once; a public route is never refused. */
export type InFlight = {
  /** Before authentication: 429. */
  ofConnection: Hook;
  /** After it: 429 when it is the partner's share that is used up, 503 when it is everybody's. */
  ofPartner: Hook;
};

/**
 * Counts requests from their head to the end of their answer. A request that nobody waits for any
 * more, because its connection is closed, is counted no longer, answered or not.
 *
 * What comes without an API key counts to nobody's share, or strangers could use it up: connections
 * and what is under way on each bound them.
 */
export function openInFlight(limits: InFlightLimits): InFlight {
  const { requestsMax, perPartnerMax, perConnectionMax } = limits;
  const connections = new WeakMap<Socket, Map<ServerResponse, PartnerId | undefined>>();
  const partners = new Map<PartnerId, number>();
  let admitted = 0;

  const connectionOf = (socket: Socket) => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const requests = new Map<ServerResponse, PartnerId | undefined>();
    connections.set(socket, requests);
    // Node says of no response behind the first of a connection that it was closed with it.
    socket.once('close', () => requests.forEach((_, response) => leave(requests, response)));
    return requests;
  };
  const leave = (
    requests: Map<ServerResponse, PartnerId | undefined>,
    response: ServerResponse,
  ): void => {
    const partnerId = requests.get(response);
    requests.delete(response);
    if (partnerId === undefined) return;
    admitted -= 1;
    const others = partners.get(partnerId)! - 1;
    if (others > 0) partners.set(partnerId, others);
    else partners.delete(partnerId);
  };

  return {
    ofConnection({ raw, routeOptions }, reply, done) {
      if (routeOptions.config.access === 'public') return done();
      const requests = connectionOf(raw.socket);
      if (requests.size >= perConnectionMax) return done(tooMany('on one connection'));
      requests.set(reply.raw, undefined);
      reply.raw.once('close', () => leave(requests, reply.raw));
      done();
    },
    ofPartner({ raw, routeOptions, partnerId }, reply, done) {
      if (routeOptions.config.access === 'public') return done();
      const requests = connectionOf(raw.socket);
      // Closed while it was asked whose key it is: nothing would end its being counted.
      if (!requests.has(reply.raw)) return done(unknownYet());
      const own = partners.get(partnerId) ?? 0;
      if (own >= perPartnerMax) return done(tooMany('at once'));
      if (admitted >= requestsMax) return done(unknownYet());
      admitted += 1;
      partners.set(partnerId, own + 1);
      requests.set(reply.raw, partnerId);
      done();
    },
  };
}

function tooMany(where: string): Problem {
  const detail = `Wait for answers: too many requests ${where}. Nothing was done with this one.`;
  return new Problem('rate_limited', detail, { headers: { 'Retry-After': '1' } });
}
