import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Engine } from './engine.ts';
import type { Operation } from './operations/operation.ts';
import { newId } from './records.ts';
import { operations, performOperation, type Outgoing } from './requests.ts';
import {
  apiVersion,
  authenticate,
  errorAnswer,
  invalidRequest,
  type Answer,
} from './wire/errors.ts';
import { parseParams } from './wire/params.ts';

const form = 'application/x-www-form-urlencoded';

/** The API itself: form-encoded requests, JSON answers. */
export function addApiRoutes(app: FastifyInstance, engine: Engine): void {
  // Bodies are Stripe's brackets: they stay text until the parser of that syntax reads them.
  app.removeAllContentTypeParsers();
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('date', new Date(engine.clock.now()).toUTCString());
  });
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    // A refusal of Fastify's own, such as a body that is too large, or a bug of ours.
    if (status >= 500) console.error(error);
    const type = status < 500 ? 'invalid_request_error' : 'api_error';
    return sendAnswer(
      { request, reply },
      refusal(errorAnswer(status, { type, message: error.message })),
    );
  });
  for (const operation of operations) {
    app.route({
      method: operation.method,
      url: operation.path,
      exposeHeadRoute: false,
      handler: async (request, reply) => {
        const outgoing = await answer(engine, operation, request);
        return sendAnswer({ request, reply }, outgoing);
      },
    });
  }
  app.route({
    method: ['GET', 'POST', 'DELETE', 'PUT', 'PATCH'],
    url: '/v1/*',
    handler: (request, reply) => {
      const refused = authenticate(request.headers.authorization);
      const unknown = unknownUrl(request.method, pathOf(request));
      return sendAnswer({ request, reply }, refusal(refused ?? unknown));
    },
  });
}

async function answer(
  engine: Engine,
  operation: Operation,
  request: FastifyRequest,
): Promise<Outgoing> {
  const refused = authenticate(request.headers.authorization) ?? checkForm(request);
  if (refused !== undefined) return refusal(refused);
  const text = operation.method === 'GET' ? queryOf(request) : ((request.body ?? '') as string);
  const params = parseParams(text);
  if (params === undefined)
    return refusal(invalidRequest('The parameters of this request cannot be read.'));
  const { id = '' } = request.params as { id?: string };
  const key = request.headers['idempotency-key']?.toString();
  return performOperation(engine, { operation, path: pathOf(request), id, params, key });
}

/**
 * The wire is that of one version of the API, the pinned package's; another one is refused aloud.
 */
function checkForm({ method, headers }: FastifyRequest): Answer | undefined {
  const version = headers['stripe-version'];
  if (version !== undefined && version !== apiVersion) {
    return invalidRequest(`This simulator speaks Stripe API version ${apiVersion} only.`);
  }
  const type = headers['content-type'];
  if (method !== 'POST' || type === undefined || type.toLowerCase().startsWith(form))
    return undefined;
  return invalidRequest(`Invalid request: check that your POST content type is ${form}.`);
}

function refusal(answer: Answer): Outgoing {
  return { answer, requestId: newId('req_', 14) };
}

function unknownUrl(method: string, path: string): Answer {
  const message = `Unrecognized request URL (${method}: ${path}).`;
  return errorAnswer(404, { type: 'invalid_request_error', message });
}

function pathOf({ url }: FastifyRequest): string {
  return url.split('?', 1)[0]!;
}

function queryOf({ url }: FastifyRequest): string {
  const at = url.indexOf('?');
  return at === -1 ? '' : url.slice(at + 1);
}

/** A caller that would wait for ever is disconnected after this long. */
const heldForMs = 120_000;
const slowerByMs = 1_000;

type Exchange = { readonly request: FastifyRequest; readonly reply: FastifyReply };

/** Sends the answer as it is, or as the fault will have it. */
async function sendAnswer(exchange: Exchange, outgoing: Outgoing): Promise<FastifyReply> {
  const { fault } = outgoing;
  switch (fault?.fault) {
    case 'reset':
    case 'reset-after':
      return reset(exchange);
    case 'time-out':
      await hold(exchange, fault.delayMs ?? heldForMs);
      return reset(exchange);
    case 'half-body':
      return sendHalf(exchange, outgoing);
    case 'slow':
      await hold(exchange, fault.delayMs ?? slowerByMs);
      return send(exchange, outgoing);
    case 'rate-limit':
    case 'unavailable':
    case 'lock-timeout':
    case 'hold':
    case 'error':
    case 'error-after':
    case undefined:
      return send(exchange, outgoing);
  }
}

function send({ request, reply }: Exchange, outgoing: Outgoing): FastifyReply {
  const { status, body } = outgoing.answer;
  return reply.code(status).headers(headersOf(request, outgoing)).send(body);
}

/** Announces the whole body, sends half of it, and is gone. */
function sendHalf({ request, reply }: Exchange, outgoing: Outgoing): FastifyReply {
  const body = Buffer.from(outgoing.answer.body);
  const headers = { ...headersOf(request, outgoing), 'content-length': body.length };
  reply.hijack();
  reply.raw.writeHead(outgoing.answer.status, headers);
  reply.raw.write(body.subarray(0, body.length >> 1), () => request.raw.socket.destroy());
  return reply;
}

/** An RST and not a FIN: the caller sees ECONNRESET. */
function reset({ request, reply }: Exchange): FastifyReply {
  reply.hijack();
  request.raw.socket.resetAndDestroy();
  return reply;
}

/** Waits, and no longer than the caller does. */
async function hold({ request }: Exchange, ms: number): Promise<void> {
  const gone = new AbortController();
  const { socket } = request.raw;
  const abort = () => gone.abort();
  socket.once('close', abort);
  try {
    await delay(ms, undefined, { signal: gone.signal, ref: false });
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  } finally {
    socket.off('close', abort);
  }
}

function headersOf(request: FastifyRequest, { answer, requestId }: Outgoing) {
  const key = request.headers['idempotency-key']?.toString();
  return {
    'content-type': 'application/json',
    'request-id': requestId,
    'stripe-version': apiVersion,
    ...(key !== undefined && request.method === 'POST' && { 'idempotency-key': key }),
    ...(answer.retry && { 'stripe-should-retry': answer.retry === 'yes' ? 'true' : 'false' }),
    ...answer.headers,
  };
}
