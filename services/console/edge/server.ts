import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import { Readable } from 'node:stream';
import {
  callerAddress,
  createDocument,
  createGuardedServer,
  createRateLimiter,
  documentAnswer,
  quickLimits,
  type HttpDocument,
  type Rate,
} from '@triplock/runtime';
import {
  fastify,
  type FastifyHttpOptions,
  LogController,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { toJson } from '@triplock/command';
import { assetOf } from '../html/assets.ts';
import {
  Refusal,
  refusals,
  type Answer,
  type Console,
  type Route,
  type ServerSentEvent,
  type Session,
  type Visit,
} from '../console.ts';
import { fieldsOfJson, openDoor, type Admitted, type Door } from './door.ts';
import { html } from '../html/html.ts';
import { layout } from '../html/layout.ts';
import { measureRequests } from '../metrics.ts';
import { routes } from '../routes.ts';
import { collectSchemas, schemaController, schemaOf } from './openapi.ts';
import type { Looker } from './streams.ts';

/** No script or style but our own files, nothing from another host, and no frame around us. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const headers = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  // Without any referrer a browser would send our own forms with the origin `null`.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

const formType = 'application/x-www-form-urlencoded';

/** What a browser or a program may send, and how long it may take. */
const limits = {
  ...quickLimits,
  bodyBytesMax: 64 * 1024,
  headBytesMax: 16 * 1024,
  // As the gateway's: longer than a balancer keeps a connection that is idle.
  idleConnectionMs: 75_000,
};

/** A stream of which nothing was taken for so long has nobody any more; one is told every 2 s. */
const takenWithinMs = 60_000;

/**
 * After which a stream ends and a page asks for it anew, with its cookie: whoever has been logged
 * out since, by the command or by time, is told nothing for longer than this.
 */
const streamMs = 300_000;

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks, and by which cookie, from the moment it is known. */
    admitted?: Admitted;
  }
  interface FastifyInstance {
    /** The OpenAPI document of its routes: the same bytes for everybody. */
    description: () => HttpDocument;
  }
}

/** Makes the console's HTTP server of the table of routes; `await app.listen(…)` opens it. */
export async function createConsoleServer(console: Console): Promise<FastifyInstance> {
  const app = fastify(serverOptions(console));
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ ...headers, 'request-id': request.id });
  });
  measureRequests(app, console.metrics);
  app.setErrorHandler((error, request, reply) => refuse(console, error, { request, reply }));
  const unknown = knowPaths(app);
  app.setNotFoundHandler((request, reply) =>
    refuse(console, unknown(request, reply), { request, reply }),
  );
  app.addHook('onRequest', countStrangers());
  app.get('/healthz', async (_, reply) => reply.send({ status: 'ok' }));
  app.get<{ Params: { name: string } }>('/assets/:name', async (request, reply) => {
    const asset = assetOf(request.params.name);
    if (asset === undefined) throw new Refusal('not_found', 'There is no such file.');
    return sendDocument(asset, { request, reply });
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(formType, { parseAs: 'string' }, (_, body, done) =>
    done(null, new URLSearchParams(String(body))),
  );
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_, body, done) =>
    done(null, fieldsOfJson(String(body))),
  );
  const door = openDoor(console);
  app.addHook('onRequest', door.refuseOtherHosts);
  // Before Fastify looks at a body, or misses one, as it does of QUERY.
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) throw unknown(request, reply);
  });
  await collectSchemas(app);
  let made: HttpDocument | undefined;
  app.decorate('description', () => {
    made ??= createDocument('application/json', toJson(app.swagger()));
    return made;
  });
  // No request pays for making it.
  app.addHook('onReady', async () => void app.description());
  const mode = console.config.TRIPLOCK_MODE;
  for (const route of routes) {
    if (route.except !== mode) addRoute(app, console, { door, route });
  }
  await app.ready();
  return app;
}

/**
 * What is said of a request that no route takes, of all that are added after this: whether its path
 * is taken by other methods, and by which.
 */
function knowPaths(app: FastifyInstance) {
  const known = new Map<string, { pattern: RegExp; methods: string[] }>();
  app.addHook('onRoute', ({ url, method }) => {
    // The names of acts have a dot and ids have none: an act that is not there is no id of one.
    const literal = url.replaceAll('.', '\\.').replaceAll(':id', '[^/.]+');
    const pattern = new RegExp(`^${literal.replaceAll(/:\w+/g, '[^/]+')}$`);
    const path = known.get(url) ?? { pattern, methods: [] };
    path.methods.push(...[method].flat());
    known.set(url, path);
  });
  return (request: FastifyRequest, reply: FastifyReply): Refusal => {
    const path = request.url.replace(/\?.*$/s, '');
    const methods = [...known.values()].find(({ pattern }) => pattern.test(path))?.methods;
    if (methods === undefined) return new Refusal('not_found', 'There is nothing at this path.');
    reply.header('allow', methods.join(', '));
    return new Refusal('method_not_allowed', 'Something is here, but not for this method.');
  };
}

/** Of pages, files and the document that anybody may have: several windows that open at once. */
const strangersRate: Rate = { perSecond: 100, burst: 1_000 };

/**
 * Counts to its address what is asked for without logging in, and what is not there. Who logged in,
 * and a balancer's question, is answered however much that is.
 */
function countStrangers() {
  const strangers = createRateLimiter(strangersRate);
  // Logging in is not: whoever shares an address with who floods would be kept from it. Its page
  // costs what a refusal does, and tokens have a bound of their own (sessions.ts).
  const isCounted = ({ path, role }: Route) => role === 'anyone' && path !== '/login';
  const open = new Set(routes.filter(isCounted).map(({ path }) => path));
  return async (request: FastifyRequest): Promise<void> => {
    const url = request.routeOptions.url as Route['path'] | undefined;
    const isOpen = request.is404 || url === '/assets/:name' || (url !== undefined && open.has(url));
    if (!isOpen || strangers.take(callerAddress(request)).outcome === 'granted') return;
    throw new Refusal('rate_limited', 'Ask more slowly; nothing was done with this.');
  };
}

function serverOptions(console: Console): FastifyHttpOptions<Server> {
  return {
    loggerInstance: console.logger,
    // What it refuses by itself meets no hook and no error handler.
    frameworkErrors: (error, request, reply) => void refuse(console, error, { request, reply }),
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (parent) => parent,
    genReqId: () => randomUUID(),
    schemaController,
    routerOptions: {
      // What is too long for an id is no id that anybody has, as its route says better.
      maxParamLength: limits.headBytesMax,
      querystringParser: (text) => new URLSearchParams(text) as never,
    },
    bodyLimit: limits.bodyBytesMax,
    serverFactory: (handler) => createGuardedServer(handler, limits),
    // Event streams end with the browser's tab, and with this process: none is waited for.
    forceCloseConnections: true,
  };
}

function addRoute(app: FastifyInstance, console: Console, { door, route }: Guarded): void {
  app.route({
    method: route.method,
    url: route.path,
    schema: schemaOf(route),
    // Before anything is said about what was asked.
    preValidation: async (request) => {
      request.admitted = await door.admit(route, request);
    },
    handler: async (request, reply) => {
      // Who needs no session gets one that may nothing.
      const { session = nobody, secret } = request.admitted ?? {};
      const visit: Visit = {
        params: request.params as Record<string, string>,
        asked: route.method === 'GET' ? request.query : request.body,
        query: new URL(request.url, 'http://console').searchParams,
        session,
        address: callerAddress(request),
        ...(secret !== undefined && { secret }),
      };
      const looker = { operator: session.operator, session: secret };
      return send(console, await route.answer(console, visit), { request, reply, looker });
    },
  });
}

type Guarded = { door: Door; route: Route };

const nobody: Session = { operator: 'nobody', role: 'viewer', csrf: '', login: 'required' };

type Exchange = { request: FastifyRequest; reply: FastifyReply };

function send(console: Console, answer: Answer, exchange: Exchange & Looking): FastifyReply {
  const { request, reply, looker } = exchange;
  switch (answer.is) {
    case 'page':
      reply.code(answer.status ?? 200).type('text/html; charset=utf-8');
      return reply.send(layout(answer, request.admitted?.session).text);
    case 'fragment':
      return reply.type('text/html; charset=utf-8').send(answer.html.text);
    case 'json':
      // As a schema is there, Fastify writes it down.
      return reply.type('application/json').send(answer.body);
    case 'description':
      return sendDocument(request.server.description(), { request, reply });
    case 'file':
      reply.header('content-disposition', `attachment; filename="${answer.name}"`);
      return reply.type(answer.type).send(Readable.from(answer.pieces));
    case 'events':
      return sendEvents(console, answer.events, { request, reply, looker });
    case 'redirect':
      if (answer.cookie !== undefined) reply.header('set-cookie', answer.cookie);
      return reply.redirect(answer.to, 303);
    default:
      return answer satisfies never;
  }
}

function sendDocument(document: HttpDocument, { request, reply }: Exchange): FastifyReply {
  const answer = documentAnswer(request.headers, document);
  return reply.code(answer.status).headers(answer.headers).send(answer.body);
}

/** Who it is that gets an answer, which a stream of events is shared by. */
type Looking = { looker: Looker };

/** Data of several lines goes as several lines of data, which a browser joins again. */
function sendEvents(
  { metrics: { streams }, streams: shared }: Console,
  events: Extract<Answer, { is: 'events' }>['events'],
  { request, reply, looker }: Exchange & Looking,
): FastifyReply {
  const gone = new AbortController();
  const { superseded, leave } = shared.take(looker);
  const asksAgain = AbortSignal.timeout(streamMs);
  streams.inc();
  reply.raw.on('close', () => {
    streams.dec();
    leave();
    gone.abort();
  });
  // A laptop that sleeps says nothing, and takes nothing: it asks again when it wakes.
  request.raw.setTimeout(takenWithinMs, () => reply.raw.destroy());
  const lines = async function* () {
    const ended = AbortSignal.any([gone.signal, superseded, asksAgain]);
    for await (const each of events(ended)) {
      if (superseded.aborted) break;
      yield eventLines(each);
    }
    if (superseded.aborted) {
      yield eventLines({
        event: 'superseded',
        data: 'You opened more windows than are told at once, and this is the oldest: load it again to go on here.',
      });
    }
  };
  return reply.type('text/event-stream').send(Readable.from(lines()));
}

function eventLines({ event, data, id }: ServerSentEvent): string {
  const fields = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`),
  ];
  return `${fields.join('\n')}\n\n`;
}

/** Refuses a page by a page, and a path of the API by a problem (RFC 9457). */
function refuse(console: Console, error: unknown, { request, reply }: Exchange): FastifyReply {
  const refusal = refusalOf(error);
  if (refusal.code === 'internal_error') {
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    console.logger.error({ err: error, route, requestId: request.id }, 'request failed');
  }
  const { status, title } = refusals[refusal.code];
  const { code, message: detail, errors } = refusal;
  reply.code(status).headers(headers);
  if (request.url.startsWith('/api/')) {
    const type = `urn:triplock:problem:${code}`;
    const where = errors.length > 0 && { errors };
    const problem = { type, title, status, detail, code, request_id: request.id, ...where };
    return reply.type('application/problem+json').send(Buffer.from(JSON.stringify(problem)));
  }
  const wrong = errors.map((each) => html`<li>${each.pointer.slice(2)}: ${each.detail}</li>`);
  const main = html`<p>${detail}</p>
    ${
      wrong.length > 0 &&
      html`<ul>
        ${wrong}
      </ul>`
    }
    <p><a href="/">To the first page</a></p>`;
  reply.type('text/html; charset=utf-8');
  return reply.send(layout({ title, main }, request.admitted?.session).text);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  switch ((error as { code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new Refusal('body_too_large', 'Send a body of at most 64 KiB.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new Refusal('unsupported_media_type', 'Send a form, or application/json to the API.');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'FST_ERR_BAD_URL':
      return new Refusal('invalid_request', 'The request is not well formed.');
    default:
      return new Refusal('internal_error', 'Try again; the log of the console says why.');
  }
}
