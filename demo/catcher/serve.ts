import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  bodyWithin,
  createBoundedServer,
  explainListenError,
  quickLimits,
  refusedControl,
  refusedVisit,
} from '@triplock/runtime';
import { type CatcherState, type CaughtFilter, receiveWebhook } from './webhooks.ts';

/** A invocation catcher. */
type Catcher = { url: string; close(): Promise<void> };

const bodyBytesMax = 1024 * 1024;
// Several notifiers, each with as many webhooks under way as it may have.
const connectionsMax = 4_096;

/** Serves the partners' endpoints. Rejects when the port is taken. */
export async function serveCatcher(
  catcher: CatcherState,
  { host, port }: { host: string; port: number },
): Promise<Catcher> {
  const server = createBoundedServer(answerWith(catcher), { ...quickLimits, connectionsMax });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(explainListenError(error, 'CATCHER_PORT')));
    server.listen({ host, port }, resolve);
  });
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error ? reject(error) : resolve()));
        server.closeIdleConnections();
      }),
  };
}

function answerWith(catcher: CatcherState): RequestListener {
  return (request, response) => {
    answer(catcher, request).then(
      ({ status, body }) => send(response, status, body),
      (error: unknown) => send(response, 500, { error: String(error) }),
    );
  };
}

type Answer = { status: number; body?: unknown };

async function answer(catcher: CatcherState, request: IncomingMessage): Promise<Answer> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://catcher');
  const [, partner] = /^\/hooks\/([^/]+)$/.exec(pathname) ?? [];
  if (request.method === 'POST' && partner !== undefined) {
    const body = (await bodyWithin(request, bodyBytesMax))?.toString('utf8');
    if (body === undefined) return { status: 413 };
    const { status, token } = receiveWebhook(catcher, { partner, headers: request.headers, body });
    return { status, ...(token !== undefined && { body: { token } }) };
  }
  // What partners were told is not for pages elsewhere, and what they answer for nobody else.
  const isControl = request.method === 'POST';
  const refused = isControl ? refusedControl(request, catcher.controlToken) : refusedVisit(request);
  if (refused !== undefined) return { status: 403, body: { error: refused } };
  switch (`${request.method} ${pathname}`) {
    case 'GET /healthz':
      return { status: 200, body: { status: 'ok' } };
    case 'GET /received':
      return { status: 200, body: catcher.caught.list(filterOf(searchParams)) };
    case 'GET /arrivals':
      return { status: 200, body: catcher.arrivals.after(Number(searchParams.get('after') ?? 0)) };
    case 'POST /behaviour':
      return order(catcher, searchParams);
    default:
      return { status: 404 };
  }
}

/** `?id=` a webhook-id, `?txn=` a transaction's id, `?since=` a time (RFC 3339). */
function filterOf(query: URLSearchParams): CaughtFilter {
  const [id, txnId, since] = [query.get('id'), query.get('txn'), query.get('since')];
  return {
    ...(id === null ? {} : { id }),
    ...(txnId === null ? {} : { txnId }),
    ...(since === null ? {} : { since: new Date(since) }),
  };
}

/** `POST /behaviour?partner=…&status=500&times=3`: the next three answers to that partner. */
function order({ secrets, behaviour }: CatcherState, query: URLSearchParams): Answer {
  const partner = query.get('partner') ?? '';
  const status = Number(query.get('status'));
  const times = Number(query.get('times') ?? 1);
  const isStatus = Number.isInteger(status) && status >= 200 && status <= 599;
  if (!secrets.has(partner) || !isStatus || !Number.isInteger(times) || times < 0) {
    return { status: 400, body: { error: 'give a known partner, status=200..599 and times' } };
  }
  behaviour.order({ partner, status, times });
  return { status: 200, body: { partner, status, times } };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  if (body === undefined) response.writeHead(status).end();
  else {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }
}
