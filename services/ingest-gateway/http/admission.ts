import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import {
  apiVersions,
  isApiVersion,
  keyScopes,
  Problem,
  type ApiVersion,
  type KeyScope,
} from '@triplock/contracts';
import { PartnersUnavailableError, type Authentication, type Partners } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { callerAddress, createRateLimiter, type RateLimiter } from '@triplock/runtime';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import type { Backlog } from '../gateway.ts';
import { tooManyAtOnce, unauthorized, unknownYet } from './problems.ts';

/** Who may ask for anything, and how often. */
export type Admission = {
  /** Reject with a `Problem('unavailable', …)` when it cannot be known whose key it is. */
  authenticate(apiKey: string): Promise<Authentication>;
  /** All requests of a partner, by what each costs. */
  partnerRate: RateLimiter;
  /** Requests without a valid key from one address, and those to nothing that is there. */
  failureRate: RateLimiter;
  /** Requests from one address that need no key. */
  publicRate: RateLimiter;
};

// RFC 6750, section 2.1; schemes are case-insensitive (RFC 9110, section 11.1).
const bearerToken = /^bearer +([\w.~+/-]+=*)$/i;

/**
 * A hook that counts what needs no key to its address. A request for health is answered whoever
 * asks, or strangers behind one address with a balancer could have it take this gateway out; when
 * there are too many, each answer ends its connection.
 */
export function admitStrangers({ publicRate }: Admission): Hook {
  return (request, reply, done) => {
    const { access, isHealth = false } = request.routeOptions.config;
    if (access !== 'public') return done();
    const tooOften = refusedBy(publicRate, callerAddress(request));
    if (tooOften === undefined || !isHealth) return done(tooOften);
    reply.raw.shouldKeepAlive = false;
    done();
  };
}

/**
 * A hook that lets only known API keys in, for what they are for and no more often than their rate,
 * and sets on the request whose it is and what that partner may. A missing, malformed or unknown
 * key gets the same 401, so that an answer says nothing about keys but to whoever has one that
 * expired, and 429 once its address has sent too many.
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
      throw authentication?.outcome === 'expired' ? expired(authentication.at) : unauthorized();
    }
    const { tokens, scope = 'full' } = request.routeOptions.config;
    admit(partnerRate, authentication.partnerId, tokens);
    if (!suffices(authentication.scope, scope))
      throw insufficientScope(authentication.scope, scope);
    request.partnerId = authentication.partnerId;
    request.cardNumbersIn = authentication.cardNumbersIn;
    request.apiKeyId = authentication.keyId;
    request.keyScope = authentication.scope;
    request.apiVersion = authentication.apiVersion;
    const asked = request.headers['triplock-version'];
    if (asked !== undefined) request.apiVersion = versionIn(asked);
  };
}

/** @throws Problem `invalid_request` that names those that there are; of several lines none is. */
function versionIn(header: string | string[]): ApiVersion {
  if (typeof header === 'string' && isApiVersion(header)) return header;
  const detail = `Send no Triplock-Version, or one of: ${apiVersions.join(', ')}.`;
  throw new Problem('invalid_request', detail);
}

/** Only who has the whole key learns that it was one, and whoever has that could use it before. */
function expired(at: Date): Problem {
  return new Problem(
    'unauthorized',
    `This API key expired at ${at.toISOString()}. Send one that is still good.`,
    {
      headers: {
        'www-authenticate': 'Bearer error="invalid_token", error_description="The key expired"',
      },
    },
  );
}

/**
 * What a route needs of an API key: `any`, whatever its scope; `read` and `pay`, one that is for
 * that; `full`, one that is for everything, which suffices everywhere.
 */
export type NeededScope = 'any' | KeyScope;

const sufficient: Readonly<Record<NeededScope, readonly KeyScope[]>> = {
  any: keyScopes,
  read: ['read', 'full'],
  pay: ['pay', 'full'],
  full: ['full'],
};

/** Whether a key of a scope may do what needs this one. */
export function suffices(has: KeyScope, needed: NeededScope): boolean {
  return sufficient[needed].includes(has);
}

/** The key is good, and not for this: 403, as RFC 6750 asks (section 3.1). Nothing was done. */
function insufficientScope(has: KeyScope, needed: NeededScope): Problem {
  const detail = `This takes an API key of scope ${wordsOf(needed)}; yours is of scope \`${has}\`.`;
  return new Problem('insufficient_scope', detail, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${needed}"` },
  });
}

/** What the OpenAPI document says of it. */
export function describeScope(needed: NeededScope): string {
  return needed === 'any' ? 'Every API key may.' : `Takes an API key of scope ${wordsOf(needed)}.`;
}

function wordsOf(needed: NeededScope): string {
  return sufficient[needed].map((each) => `\`${each}\``).join(' or ');
}

/** Takes tokens of whoever it is; what to refuse the request with when there are too few. */
export function refusedBy(rate: RateLimiter, who: string, tokens = 1): Problem | undefined {
  const taken = rate.take(who, tokens);
  if (taken.outcome === 'granted') return undefined;
  return new Problem('rate_limited', 'Send requests more slowly; nothing was done with this one.', {
    headers: { 'Retry-After': `${taken.retryAfterSeconds}` },
  });
}

function admit(rate: RateLimiter, who: string, tokens?: number): void {
  const refused = refusedBy(rate, who, tokens);
  if (refused !== undefined) throw refused;
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
    publicRate: createRateLimiter({
      perSecond: config.PUBLIC_REQUESTS_PER_SECOND,
      burst: config.PUBLIC_REQUESTS_BURST,
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
      if (requests.size >= perConnectionMax) return done(tooManyAtOnce('on one connection'));
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
      if (own >= perPartnerMax) return done(tooManyAtOnce());
      if (admitted >= requestsMax) return done(unknownYet());
      admitted += 1;
      partners.set(partnerId, own + 1);
      requests.set(reply.raw, partnerId);
      done();
    },
  };
}

// A store has 1.5 s to answer: behind one that has waited for two thirds of it one waits in vain.
const standsStillMs = 1_000;
// A wait of four times what it takes when few wait is a queue. The least is ten times what Redis or
// Kafka takes nearby; the most keeps a slow store from being taken for a patient partner.
const waitMs = { times: 4, least: 50, most: 500 };
const few = 8;
// They share a batch: fewer at once would make it smaller, and each request dearer.
const waitingMin = 64;
const lookEveryMs = 100;
// For so long a queue may grow: a burst, of which everybody is answered in time.
const burstMs = 750;
const growth = 1.1;

/**
 * By Little's law a wait is what waits divided by what is done in a time. So when those that left
 * in the last 100 ms had waited too long, no more may wait than the store gets through in the time
 * that they should have: the rate is its own, of this machine and this moment. Each look at which
 * waits are short again lets in a tenth more, until nothing is limited.
 *
 * A burst is no overload: what came at once and is being done is let be, however long the last of
 * it waits. A queue is limited that stands: it has been there for longer than a burst may, and has
 * become no shorter since the last look, nor since the third before.
 *
 * A partner with fewer than an equal share of what may wait is let in all the same, so that one
 * that floods shuts nobody else out: at most twice as many wait then. A store stands still that
 * has had somebody waiting for a second and let nobody go; its next answer is the end of that.
 * `clock` gives milliseconds; tests set it.
 */
export function openBacklog(clock: () => number = () => performance.now()): Backlog {
  // A Set keeps the order of insertion, so the first is the oldest.
  const waiting = new Set<{ sinceMs: number; isOneOfFew: boolean }>();
  const partners = new Map<string, number>();
  let limit = Infinity;
  let calmMs: number | undefined;
  let look = { atMs: clock(), idleMs: 0, left: 0, waitedMs: 0, shed: 0, most: 0 };
  let emptyMs = look.atMs;
  let leftMs = look.atMs;
  let queueSinceMs: number | undefined;
  let sizes: readonly number[] = [];

  const note = (nowMs: number, tookMs: number, isOneOfFew: boolean) => {
    if (isOneOfFew && waiting.size < few)
      calmMs = calmMs === undefined ? tookMs : calmMs + (tookMs - calmMs) / 16;
    look.left += 1;
    look.waitedMs += tookMs;
    const spanMs = nowMs - look.atMs;
    if (spanMs < lookEveryMs) return;
    const meanMs = look.waitedMs / look.left;
    const wantedMs = Math.min(Math.max((calmMs ?? 0) * waitMs.times, waitMs.least), waitMs.most);
    // While nobody waits a store does nothing, which says nothing of what it can do.
    const busyMs = spanMs - look.idleMs;
    // Not by how many wait now: those of a batch leave together.
    if (look.most < few || look.idleMs > spanMs / 2) queueSinceMs = undefined;
    else queueSinceMs ??= nowMs;
    if (meanMs <= wantedMs) limit *= growth ** (spanMs / lookEveryMs);
    else if (busyMs < lookEveryMs) return;
    else {
      const isStanding =
        queueSinceMs !== undefined &&
        nowMs - queueSinceMs >= burstMs &&
        waiting.size >= Math.max(sizes.at(-1) ?? 0, sizes.at(-3) ?? 0);
      if (look.shed > 0 || isStanding) {
        // As few wait as may at least, and it is as slow: not for the queue, so this is what it
        // takes.
        if (limit <= waitingMin) calmMs = Math.max(calmMs ?? 0, meanMs / waitMs.times);
        else limit = Math.max(waitingMin, (look.left / busyMs) * wantedMs);
      }
    }
    sizes = [...sizes.slice(-2), waiting.size];
    look = { atMs: nowMs, idleMs: 0, left: 0, waitedMs: 0, shed: 0, most: 0 };
  };
  return {
    enter: (partner) => {
      const one = { sinceMs: clock(), isOneOfFew: waiting.size < few };
      if (waiting.size === 0) look.idleMs += one.sinceMs - emptyMs;
      waiting.add(one);
      look.most = Math.max(look.most, waiting.size);
      partners.set(partner, (partners.get(partner) ?? 0) + 1);
      return () => {
        if (!waiting.delete(one)) return;
        const others = partners.get(partner)! - 1;
        if (others > 0) partners.set(partner, others);
        else partners.delete(partner);
        const nowMs = clock();
        leftMs = nowMs;
        if (waiting.size === 0) emptyMs = nowMs;
        note(nowMs, nowMs - one.sinceMs, one.isOneOfFew);
      };
    },
    isBehind: (partner) => {
      const oldest = waiting.values().next().value;
      if (oldest === undefined) return false;
      const tooMany = waiting.size >= limit;
      if (tooMany) look.shed += 1;
      if (!tooMany && clock() - Math.max(oldest.sinceMs, leftMs) <= standsStillMs) return false;
      const own = partners.get(partner) ?? 0;
      const among = partners.size + (own > 0 ? 0 : 1);
      const share = Math.min(waiting.size, limit) / among;
      return own >= share || (tooMany && share < 1);
    },
    limit: () => limit,
  };
}
