import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import { BlockList, isIPv6 } from 'node:net';
import { currentApiVersion, Problem, type ApiVersion, type KeyScope } from '@triplock/contracts';
import { type CardNumbersIn, hasCardNumber, type PartnerId } from '@triplock/payments';
import {
  callerAddress,
  createGuardedServer,
  listenWidely,
  saysOnce,
  type Address,
  type ConnectionLimits,
  type Logger,
} from '@triplock/runtime';
import {
  fastify,
  LogController,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyRequest,
} from 'fastify';
import { usualLimits } from '../config.ts';
import {
  admitStrangers,
  authenticateRequest,
  openInFlight,
  refusedBy,
  type Admission,
  type InFlightLimits,
  type NeededScope,
} from './admission.ts';
import { addDocsPage, documentOpenApi } from './openapi.ts';
import { answerClientError, renderProblem, sendProblem, unknownYet } from './problems.ts';
import { checkBodyHead, parseJsonBody } from './request-body.ts';

/** What the HTTP edge needs. It knows nothing of payments. */
export type HttpServerOptions = {
  logger: Logger;
  admission: Admission;
  /**
   * Addresses and networks whose `X-Forwarded-For` and `Request-Id` are believed; nobody's by
   * default. Without it all callers behind a proxy have one address.
   */
  trustedProxies?: readonly string[];
  /**
   * Adds the routes. A handler gets `request.partnerId` and, for POST, the strictly parsed body as
   * `request.body` (a JsonValue; `undefined` when there was none), throws `Problem` to refuse, and
   * gives its answer as text: `reply.code(202).type('application/json').send(text)`.
   */
  routes(app: FastifyInstance): void;
  /** Called before any route is there, to look at all requests. */
  watch?(app: FastifyInstance): void;
  limits?: Partial<HttpLimits>;
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose API key the request carries. Empty on routes with `config: { access: 'public' }`. */
    partnerId: PartnerId;
    /** Where what its partner sends may look like the numbers of payment cards. */
    cardNumbersIn: CardNumbersIn;
    /** Which of its partner's API keys it carries. */
    apiKeyId: string;
    keyScope: KeyScope;
    /** The version of the interface that it is in; none where Fastify refuses by itself. */
    apiVersion?: ApiVersion;
  }
  interface FastifyInstance {
    /** Opens it: as `listen`, with several sockets where the system can share a port. */
    listenWidely(address: Address): Promise<void>;
  }
  interface FastifyContextConfig {
    /** `public`: needs no API key. Every other route answers 401 without one. */
    access?: 'public';
    /** What it needs of an API key; one for everything by default. */
    scope?: NeededScope;
    /** What it takes of its partner's rate, as so many payments; 1 by default. */
    tokens?: number;
    /** Whether it is what balancers ask for, and answered however much its address asks for. */
    isHealth?: boolean;
  }
}

/**
 * Makes the gateway's HTTP server: authentication, limits, strict JSON, problems, `/healthz`,
 * `/openapi.json` and `/docs`. `await app.listenWidely({ host, port })` opens it, and
 * `await app.close()` stops listening and lets requests under way finish.
 *
 * Every request is judged in this order: length of its target, its host, route, how much its
 * address asks for without a key, how much is under way on its connection, API key, rate, scope of
 * the key, how much is under way for its partner and in all, form of its body, body, handler; each
 * step refuses before the next one costs anything.
 */
export async function createHttpServer(options: HttpServerOptions): Promise<FastifyInstance> {
  const limits = { ...httpLimits, ...options.limits };
  const app = fastify(serverOptions(options, limits));
  app.decorateRequest('partnerId', '' as PartnerId);
  app.decorateRequest('cardNumbersIn');
  app.decorateRequest('apiKeyId', '');
  app.decorateRequest('keyScope', 'read');
  app.decorateRequest('apiVersion', currentApiVersion);
  app.setErrorHandler(sendProblem);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, parseJsonBody);

  const inFlight = openInFlight(limits);
  options.watch?.(app);
  app.addHook('onRequest', refuseLongTarget(limits.uriBytesMax));
  app.addHook('onRequest', refuseSecondLines);
  finishAnswers(app);
  refuseUnknownRoutes(app, options.admission);
  app.addHook('onRequest', admitStrangers(options.admission));
  app.addHook('onRequest', inFlight.ofConnection);
  app.addHook('onRequest', authenticateRequest(options.admission));
  app.addHook('onRequest', inFlight.ofPartner);
  app.addHook('onRequest', checkBodyHead(limits.bodyBytesMax));
  await documentOpenApi(app);
  await addDocsPage(app);
  app.get(
    '/healthz',
    { config: { access: 'public', isHealth: true }, schema: { hide: true } },
    (_, reply) => reply.type('application/json').send('{"status":"ok"}'),
  );
  options.routes(app);
  const listening = listenWidely(app.server);
  app.decorate('listenWidely', (address: Address) =>
    listening.open(address, (asked) => app.listen(asked)),
  );
  app.addHook('preClose', async () => listening.close());
  app.addHook('onClose', () => listening.closed());
  endStuckConnections(app, limits);
  await app.ready();
  return app;
}

function serverOptions(
  { logger, trustedProxies = [] }: HttpServerOptions,
  limits: HttpLimits,
): FastifyHttpOptions<Server> {
  return {
    loggerInstance: logger,
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    // The stories log what came of a payment; two more lines a request would say less and cost
    // more.
    logController: new LogController({ disableRequestLogging: true }),
    // Routes carry their schemas for the OpenAPI document. What validates with them is the handler,
    // which can tell every wrong field at once; texts go out as they are. Given here, so that
    // Fastify's own compilers are not even loaded; its types name the whole function of one of
    // them.
    schemaController: {
      compilersFactory: {
        buildValidator: (() => () => () => true) as never,
        buildSerializer: () => () => JSON.stringify,
      },
    },
    childLoggerFactory: (parent) => parent,
    genReqId: nameRequests(trustedProxies),
    bodyLimit: limits.bodyBytesMax,
    // {@link checkBodyHead} lets a client that waits go on, after the checks.
    serverFactory: (handler) =>
      createGuardedServer(handler, limits, {
        busyAnswer: () => renderProblem(unknownYet()),
        judgesExpectations: true,
      }),
    // Fastify's own limit of 100 would refuse an id before anyone was asked for a key.
    routerOptions: { maxParamLength: limits.uriBytesMax },
    // On shutdown a request that comes on an open connection is still served, and the connection
    // closed with its answer.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    clientErrorHandler: answerClientError(limits.uriBytesMax),
    frameworkErrors: sendProblem,
  };
}

// No space or comma, so that two lines of the header, which Node joins, are none.
const requestIdForm = /^[\w.~+/=:-]{1,128}$/;
const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');

/**
 * Gives each request the id by which its answer, its problem and the log lines about it are found
 * together. A trusted proxy may have named it already, by one `Request-Id` of up to 128 letters,
 * digits and `._~+/=:-` that does not look like a card's number; whatever else comes there is
 * ignored, for nobody else can be kept from naming a request as another one.
 */
function nameRequests(trustedProxies: readonly string[]) {
  const proxies = new BlockList();
  for (const proxy of trustedProxies) {
    const [address = '', bits] = proxy.split('/');
    if (bits === undefined) proxies.addAddress(address, familyOf(address));
    else proxies.addSubnet(address, Number(bits), familyOf(address));
  }
  const isProxy = (address = ''): boolean => {
    const [unzoned = ''] = address.split('%', 1);
    return unzoned !== '' && proxies.check(unzoned, familyOf(unzoned));
  };
  return ({ headers, socket }: IncomingMessage): string => {
    const named = headers['request-id'];
    const isNamed = typeof named === 'string' && requestIdForm.test(named);
    if (isNamed && isProxy(socket.remoteAddress) && !hasCardNumber(named)) return named;
    return randomUUID();
  };
}

/** A hook that refuses a request target longer than any of ours, before anything looks at it. */
function refuseLongTarget(uriBytesMax: number) {
  return (request: FastifyRequest, _: unknown, done: (error?: Problem) => void): void => {
    if (request.url.length <= uriBytesMax) done();
    else done(new Problem('uri_too_long', `Send a target of at most ${uriBytesMax} bytes.`));
  };
}

function refuseSecondLines({ raw }: FastifyRequest, _: unknown, done: (error?: Problem) => void) {
  const several = (['host', 'authorization'] as const).find((header) => !saysOnce(raw, header));
  if (several === undefined) done();
  else done(new Problem('invalid_request', `Send one ${several} header, not several.`));
}

/**
 * A connection that never finishes a request would hold a shutdown up for ever: once a server
 * closes, Node no longer looks at its time limits.
 */
function endStuckConnections(app: FastifyInstance, { drainMs }: HttpLimits): void {
  app.addHook('preClose', async () => {
    setTimeout(() => app.server.closeAllConnections(), drainMs).unref();
  });
}

/**
 * From the moment the server closes, every answer also ends its connection: a client that keeps one
 * open would hold up the shutdown, and could send its next request just as the process ends.
 *
 * Fastify adds a charset to every text of JSON, which is UTF-8 by itself and has no such parameter
 * (RFC 8259, section 11): it is taken off again.
 */
function finishAnswers(app: FastifyInstance): void {
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  app.addHook('onSend', async (request, reply) => {
    reply.header('Request-Id', request.id);
    reply.header('Triplock-Version', request.apiVersion ?? currentApiVersion);
    if (closing) reply.header('connection', 'close');
    const [json] =
      /^application\/(problem\+)?json\b/.exec(String(reply.getHeader('content-type'))) ?? [];
    if (json !== undefined) reply.header('content-type', json);
  });
}

const nothingHere =
  'There is nothing at this path. GET /docs shows every operation as a page to read, and ' +
  'GET /openapi.json the same for programs; neither needs an API key.';

type KnownPath = { pattern: RegExp; methods: string[] };

/**
 * Answers what no route takes: 405 with `Allow` when the path is known under other methods, else
 * 404, and 429 once its address has sent too much of it. It comes before authentication and
 * parsing, so that neither depends on a key or a body.
 */
function refuseUnknownRoutes(app: FastifyInstance, { failureRate }: Admission): void {
  const known = new Map<string, KnownPath>();
  app.addHook('onRoute', ({ url, method }) => {
    const path = known.get(url) ?? { pattern: patternOf(url), methods: [] };
    path.methods.push(...[method].flat());
    known.set(url, path);
  });
  const refuse = (request: FastifyRequest) =>
    refusedBy(failureRate, callerAddress(request)) ?? refusal(request, known.values());
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) done(refuse(request));
    else done();
  });
  // Reached by methods that Fastify itself does not know, which skip the hooks.
  app.setNotFoundHandler((request) => {
    throw refuse(request);
  });
}

function refusal(request: FastifyRequest, known: Iterable<KnownPath>): Problem {
  const path = request.url.replace(/\?.*$/s, '');
  for (const { pattern, methods } of known) {
    if (!pattern.test(path) || methods.includes(request.method)) continue;
    const allow = methods.join(', ');
    return new Problem('method_not_allowed', `Use one of: ${allow}.`, { headers: { allow } });
  }
  return new Problem('not_found', nothingHere);
}

/** `/v1/payments/:id`, `/v1/things/:name(.*).csv` or `/docs/static/*` as a pattern. */
function patternOf(url: string): RegExp {
  const literal = url.split(/:\w+(?:\([^)]*\))?/).map(asPattern);
  return new RegExp(`^${literal.join('[^/]+')}$`);
}

function asPattern(literal: string): string {
  return literal.replaceAll('.', '\\.').replaceAll('*', '.*');
}

/**
 * Every limit of the HTTP edge. Settings say how many (`InFlightLimits`, connections); tests
 * shorten the times, and nothing else changes them.
 */
export type HttpLimits = InFlightLimits &
  Required<ConnectionLimits> & {
    bodyBytesMax: number;
    uriBytesMax: number;
    drainMs: number;
  };

/** The limits that the interface promises. */
export const httpLimits: HttpLimits = {
  ...usualLimits,
  // A payment with every field at its longest is about 45 KiB, escapes included.
  bodyBytesMax: 64 * 1024,
  headBytesMax: 16 * 1024,
  // No path or query of ours comes near it, and it leaves half of the head to the headers.
  uriBytesMax: 8 * 1024,
  headTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  // Node looks at slow connections this often, so a limit is kept to within half a second.
  checkEveryMs: 500,
  // Longer than the 60 s after which common load balancers drop an idle connection, so that they do
  // it and never find one that was just closed here.
  idleConnectionMs: 75_000,
  // As long as balancers give a server: more than a megabyte, the largest document, by a slow line.
  answerTimeoutMs: 60_000,
  // More than a partner may have under way on a connection, so that the next ones get their 429.
  unansweredMax: 128,
  refusalsMax: 20,
  // Every request at work is answered within 3 s; what holds a connection longer is none.
  drainMs: 5_000,
};
