import type { TestContext } from 'node:test';
import type { PartnerId } from '@triplock/payments';
import { createMetrics } from '@triplock/runtime';
import { createHttpServer } from '../http/http-server.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { testAdmission } from './test-admission.ts';
import { openTestGateway } from './test-gateway.ts';
import { addTransactionRoutes } from '../routes/transaction-routes.ts';

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
  const gateway = await openTestGateway(t);
  const metrics = createMetrics('test');
  const parts = { ...gateway.parts, metrics: gatewayMetrics(metrics), budgetMs: 2_200 };
  const app = await createHttpServer({
    logger: gateway.parts.logger,
    admission: testAdmission(async (key) => ({
      outcome: 'authenticated',
      partnerId: key as PartnerId,
    })),
    routes: (server) => addTransactionRoutes(server, parts),
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
    ...gateway,
    metrics,
    get: (path: string, asked: Asked = {}) => ask('GET', path, asked),
    post: (path: string, asked: Asked = {}) => ask('POST', path, asked),
  };
}
