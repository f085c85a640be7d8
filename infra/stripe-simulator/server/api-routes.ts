import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import { performOperation, type Outgoing } from '../engine/perform-operation.ts';
import type { Engine } from '../engine/engine.ts';
import type { Operation } from '../operations/operation.ts';
import { operations } from '../operations/operations.ts';
import { newId } from '../records/new-id.ts';
import { apiVersion } from '../wire/api-version.ts';
import { authenticate } from '../wire/authenticate.ts';
import { parseParams } from '../wire/parse-params.ts';
import { errorAnswer, invalidRequest, type Answer } from '../wire/stripe-error.ts';
import { sendAnswer } from './send-answer.ts';

const form = 'application/x-www-form-urlencoded';

/** The API itself: form-encoded requests, JSON answers. */
export function addApiRoutes(app: FastifyInstance, engine: Engine): void {
  // Bodies are Stripe's brackets: they stay text until the parser of that syntax reads them.
  app.removeAllContentTypeParsers();
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
