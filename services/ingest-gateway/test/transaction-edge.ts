import type { TestContext } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { createHttpServer } from '../http/server.ts';
import { addTransactionRoutes } from '../routes/gateway-routes.ts';
import { admitByName, openTestGateway } from './gateway.ts';

/** One request; the partner named by `as` sends it. A body of text goes out as it is. */
export type Asked = {
  key?: string;
  body?: object | string;
  headers?: Record<string, string>;
  as?: string;
};

/** What an answer was. */
export type Answered = {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  body: Record<string, unknown>;
};

/** The routes about payments and refunds over real stores of one test's own. */
export async function transactionEdge(t: TestContext) {
  const opened = await openTestGateway(t);
  const { gateway } = opened;
  const app = await createHttpServer({
    logger: gateway.logger,
    admission: admitByName,
    routes: (server) => addTransactionRoutes(server, gateway),
  });
  t.after(() => app.close());

  const ask = async (method: 'GET' | 'POST', url: string, asked: Asked): Promise<Answered> => {
    const { key, body, headers, as = 'acme' } = asked;
    const response = await app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${as}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const { statusCode: status, payload: text } = response;
    return { status, headers: response.headers, text, body: response.json() };
  };
  return {
    ...opened,
    get: (path: string, asked: Asked = {}) => ask('GET', path, asked),
    post: (path: string, asked: Asked = {}) => ask('POST', path, asked),
  };
}

/** A route that may change something. */
export type MutatingRoute = { method: string; url: string };

/**
 * How a route is tried: where, and with two bodies that are not the same request; one where there
 * is no other. By default it answers 202 when it takes effect.
 */
export type Attempt = { path: string; body: object; otherBody?: object; status?: number };

/** What an answer was, as far as a claim shows in it. */
type ClaimAnswer = { status: number; text: string; isReplay: boolean };

/** Keeps a list of the mutating routes that are added from now on, as Fastify has them. */
export function listMutatingRoutes(app: FastifyInstance): MutatingRoute[] {
  const routes: MutatingRoute[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) {
      if (!['GET', 'HEAD', 'OPTIONS'].includes(each)) routes.push({ method: each, url });
    }
  });
  return routes;
}

/**
 * Tries a route as partners do: without a key, once, again, and with the key for another request.
 * Gives what shows that no claim stands before its effect; nothing when one does.
 */
export async function findMissingClaim(
  app: FastifyInstance,
  { method }: MutatingRoute,
  { path, body, otherBody, status = 202 }: Attempt,
): Promise<string[]> {
  const ask = async (payload: object, key?: string): Promise<ClaimAnswer> => {
    const headers = { authorization: 'Bearer acme', 'content-type': 'application/json' };
    const {
      statusCode,
      payload: text,
      headers: answered,
    } = await app.inject({
      method: method as 'POST',
      url: path,
      headers: { ...headers, ...(key !== undefined && { 'idempotency-key': key }) },
      payload: JSON.stringify(payload),
    });
    return { status: statusCode, text, isReplay: answered['idempotency-replayed'] === 'true' };
  };
  const key = `survey ${method} ${path}`;
  const keyless = await ask(body);
  const first = await ask(body, key);
  const again = await ask(body, key);
  const other = otherBody && (await ask(otherBody, key));
  const otherStatus = otherBody && 422;
  const problems: [boolean, string][] = [
    [keyless.status !== 400, `takes effect without a key (${keyless.status})`],
    [first.status !== status || first.isReplay, `does not accept the first (${first.status})`],
    [!again.isReplay, `does not mark a replay as one (${again.status})`],
    [again.text !== first.text, 'gives a retry other bytes'],
    [other?.status !== otherStatus, `takes a used key for another request (${other?.status})`],
  ];
  return problems.filter(([isThere]) => isThere).map(([, problem]) => problem);
}
