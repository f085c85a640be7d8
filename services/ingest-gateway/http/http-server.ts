import { Problem } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import {
  fastify,
  LogController,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyHttpOptions,
} from 'fastify';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { answerClientError } from './answer-client-error.ts';
import { authenticateRequest, type Admission } from './authenticate-request.ts';
import { checkBodyHead } from './check-body-head.ts';
import { closeWithAnswers } from './close-with-answers.ts';
import { addDocsPage } from './docs-page/add-docs-page.ts';
import { httpLimits, type HttpLimits } from './http-limits.ts';
import './http-types.ts';
import { documentOpenApi } from './openapi.ts';
import { parseJsonBody } from './parse-json-body.ts';
import { refuseUnknownRoutes } from './refuse-unknown-routes.ts';
import { sendProblem } from './send-problem.ts';

/** What the HTTP edge needs. It knows nothing of payments. */
export type HttpServerOptions = {
  logger: Logger;
  admission: Admission;
  /**
   * Addresses and networks whose `X-Forwarded-For` is believed; nobody's by default. Without it
   * all callers behind a proxy have one address.
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

/**
 * Makes the gateway's HTTP server: authentication, limits, strict JSON, problems, `/healthz`,
 * `/openapi.json` and `/docs`. `await app.listen({ host, port })` opens it, and `await app.close()`
 * stops listening and lets requests under way finish.
 *
 * Every request is judged in this order: length of its target, route, API key, rate, form of its
 * body, body, handler; each step refuses before the next one costs anything.
 */
export async function createHttpServer(options: HttpServerOptions): Promise<FastifyInstance> {
  const limits = { ...httpLimits, ...options.limits };
  const app = fastify(serverOptions(options, limits));
  app.decorateRequest('partnerId', '' as PartnerId);
  app.setErrorHandler(sendProblem);
  // Routes carry their schemas for the OpenAPI document. What validates with them is the handler,
  // which can tell every wrong field at once; texts go out as they are.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, parseJsonBody);

  options.watch?.(app);
  app.addHook('onRequest', refuseLongTarget(limits));
  closeWithAnswers(app);
  refuseUnknownRoutes(app);
  app.addHook('onRequest', authenticateRequest(options.admission));
  app.addHook('onRequest', checkBodyHead(limits));
  await documentOpenApi(app);
  addDocsPage(app);
  app.get('/healthz', { config: { access: 'public' }, schema: { hide: true } }, (_, reply) =>
    reply.type('application/json').send('{"status":"ok"}'),
  );
  options.routes(app);
  listenForExpectations(app);
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
    childLoggerFactory: (parent) => parent,
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleConnectionMs,
    // Fastify's own limit of 100 would refuse an id before anyone was asked for a key.
    routerOptions: { maxParamLength: limits.uriBytesMax },
    http: {
      maxHeaderSize: limits.headBytesMax,
      headersTimeout: limits.headTimeoutMs,
      connectionsCheckingInterval: limits.timeoutCheckMs,
    },
    // On shutdown a request that comes on an open connection is still served, and the connection
    // closed with its answer.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    clientErrorHandler: answerClientError,
    frameworkErrors: sendProblem,
  };
}

/** A hook that refuses a request target longer than any of ours, before anything looks at it. */
function refuseLongTarget({ uriBytesMax }: HttpLimits) {
  return (request: FastifyRequest, _: unknown, done: (error?: Problem) => void): void => {
    if (request.url.length <= uriBytesMax) done();
    else done(new Problem('uri_too_long', `Send a target of at most ${uriBytesMax} bytes.`));
  };
}

/**
 * Node would tell every waiting client to go on before anything was checked; {@link checkBodyHead}
 * does it after the checks. An expectation that nobody knows is ignored (RFC 9110, section 10.1.1).
 */
function listenForExpectations(app: FastifyInstance): void {
  const handle = (request: IncomingMessage, response: ServerResponse) =>
    app.routing(request, response);
  app.server.on('checkContinue', handle);
  app.server.on('checkExpectation', handle);
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
