import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  bodyWithin,
  createGuardedServer,
  quickLimits,
  refusedControl,
  refusedVisit,
} from '@triplock/runtime';
import { listNames, type Books, type ListName, type Outcome } from './books.ts';

/** Where it listens, and what whoever breaks it on purpose has to show. */
export type BankServer = { host: string; port: number; controlToken: string | undefined };

/** What can go wrong, so many times, with one operation or any. */
type Fault = {
  /**
   * `lose-answer`: it is done, and nobody is told. `error`: a 500, and nothing is done.
   * `turn-away`: a 429, and nothing is done.
   */
  fault: 'lose-answer' | 'error' | 'turn-away';
  /** Such as `release`. */
  operation?: string;
  count: number;
  retryAfterSeconds?: number;
  hits: number;
};

type Answer = { status: number; body: object; headers?: Record<string, string> };

const limits = {
  ...quickLimits,
  // Several workers, each with as many transfers under way as it may have.
  connectionsMax: 4_096,
  // Longer than they keep a connection, so that they never send on one that was just closed.
  idleConnectionMs: 75_000,
};

/** Serves the bank's interface under `/v1` and the controls under `/_simulator`. */
export async function serveBank(
  books: Books,
  { host, port, controlToken }: BankServer,
): Promise<{ url: string; close(): Promise<void> }> {
  const faults: Fault[] = [];
  const server = createGuardedServer((request, response) => {
    const path = request.url?.split('?', 1)[0] ?? '';
    const answering = path.startsWith('/_simulator/')
      ? answerControl(books, faults, { request, path, controlToken })
      : answerBank(books, faults, { request, path });
    answering.then(
      (answer) => (answer === 'lost' ? request.socket.destroy() : send(response, answer)),
      (error: unknown) => send(response, { status: 400, body: { message: String(error) } }),
    );
  }, limits);
  server.listen({ host, port });
  await once(server, 'listening');
  return {
    url: `http://${host}:${port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

type Asked = { request: IncomingMessage; path: string };

async function answerBank(
  books: Books,
  faults: Fault[],
  { request, path }: Asked,
): Promise<Answer | 'lost'> {
  if (path === '/readyz' || path === '/healthz') return { status: 200, body: { status: 'ok' } };
  const refused = refusedVisit(request);
  if (refused !== undefined) return { status: 403, body: { message: refused } };
  if (!/^Bearer +giro-token-/i.test(request.headers.authorization ?? '')) {
    return { status: 401, body: { message: 'a token that is not known' } };
  }
  const body = await bodyOf(request);
  const found = operationOf(request.method ?? '', path);
  if (found === undefined) return { status: 404, body: { code: 'not_found' } };
  const fault = strike(faults, found.operation);
  if (fault?.fault === 'error') return { status: 500, body: { message: 'not well' } };
  if (fault?.fault === 'turn-away') {
    const headers = { 'retry-after': String(fault.retryAfterSeconds ?? 1) };
    return { status: 429, body: { message: 'too many' }, headers };
  }
  const answer = await found.run(books, { body, query: queryOf(request) });
  await books.settled();
  return fault?.fault === 'lose-answer' ? 'lost' : answer;
}

type Sent = { body: Record<string, unknown>; query: URLSearchParams };
type Operation = {
  operation: string;
  run(books: Books, sent: Sent): Promise<Answer> | Answer;
};

const id = '([A-Za-z0-9-]{1,64})';
const operations: readonly [
  method: string,
  path: RegExp,
  of: (first: string, second: string) => Operation,
][] = [
  [
    'PUT',
    new RegExp(`^/v1/transfers/${id}$`),
    (transfer) => ({
      operation: 'prepare',
      run: async (books, { body }) => {
        const { iban, amount, currency, reference } = body;
        if (typeof iban !== 'string' || typeof reference !== 'string' || !isCents(amount)) {
          return { status: 400, body: { message: 'iban, amount and reference are needed' } };
        }
        if (currency !== 'EUR') {
          return { status: 422, body: { code: 'currency_not_supported', message: 'EUR only' } };
        }
        const wanted = { id: transfer, iban, amount, currency, reference };
        return answerOf(await books.prepare(wanted));
      },
    }),
  ],
  [
    'POST',
    new RegExp(`^/v1/transfers/${id}/release$`),
    (transfer) => ({
      operation: 'release',
      run: async (books) => answerOf(await books.release(transfer)),
    }),
  ],
  [
    'POST',
    new RegExp(`^/v1/transfers/${id}/cancel$`),
    (transfer) => ({
      operation: 'cancel',
      run: async (books) => answerOf(await books.cancel(transfer)),
    }),
  ],
  [
    'PUT',
    new RegExp(`^/v1/transfers/${id}/refunds/${id}$`),
    (transfer, refund) => ({
      operation: 'refund',
      run: async (books, { body }) => {
        const { amount, reference } = body;
        if (typeof reference !== 'string' || !isCents(amount)) {
          return { status: 400, body: { message: 'amount and reference are needed' } };
        }
        return answerOf(await books.refund({ id: refund, transfer, amount, reference }));
      },
    }),
  ],
  [
    'GET',
    new RegExp(`^/v1/transfers/${id}/refunds$`),
    (transfer) => ({
      operation: 'list',
      run: (books) => {
        const data = books.refundsOf(transfer);
        return data === undefined ? notFound : { status: 200, body: { data } };
      },
    }),
  ],
  [
    'GET',
    new RegExp(`^/v1/(${listNames.join('|')})/${id}$`),
    (list, one) => ({
      operation: 'read',
      run: (books) => {
        const found = books.find(list as ListName, one);
        return found === undefined ? notFound : { status: 200, body: found };
      },
    }),
  ],
  [
    'GET',
    new RegExp(`^/v1/(${listNames.join('|')})$`),
    (list) => ({
      operation: 'list',
      run: (books, { query }) => {
        const limit = Math.min(100, Number(query.get('limit') ?? 100));
        const since = Number(query.get('since') ?? 0);
        const after = query.get('after') ?? undefined;
        const page = books.page(list as ListName, { since, limit, after });
        return page === undefined ? notFound : { status: 200, body: page };
      },
    }),
  ],
];

const notFound: Answer = { status: 404, body: { code: 'not_found' } };

function operationOf(method: string, path: string): Operation | undefined {
  for (const [of, pattern, operation] of operations) {
    const found = of === method ? pattern.exec(path) : null;
    if (found !== null) return operation(found[1]!, found[2]!);
  }
  return undefined;
}

function answerOf(outcome: Outcome<object>): Answer {
  switch (outcome.outcome) {
    case 'done':
      return { status: 200, body: outcome.value };
    case 'conflict':
      return { status: 409, body: outcome.value };
    case 'unknown':
      return notFound;
    case 'refused': {
      const { code, message } = outcome;
      return { status: 422, body: { code, message } };
    }
    default:
      return outcome satisfies never;
  }
}

const isCents = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) > 0;

function strike(faults: Fault[], operation: string): Fault | undefined {
  const fault = faults.find(
    (each) => each.hits < each.count && (each.operation ?? operation) === operation,
  );
  if (fault !== undefined) fault.hits += 1;
  return fault;
}

async function answerControl(
  books: Books,
  faults: Fault[],
  { request, path, controlToken }: Asked & { controlToken: string | undefined },
): Promise<Answer> {
  const refused = refusedControl(request, controlToken);
  if (refused !== undefined) return { status: 403, body: { error: refused } };
  const body = await bodyOf(request);
  const done = { status: 200, body: {} };
  switch (`${request.method} ${path.slice('/_simulator'.length)}`) {
    case 'POST /faults':
      faults.push({ count: 1, ...(body as Pick<Fault, 'fault'>), hits: 0 });
      return done;
    case 'GET /faults':
      return { status: 200, body: { faults } };
    case 'DELETE /faults':
      faults.length = 0;
      return done;
    case 'PUT /settings':
      books.setSettleAfterMs(Number(body['settleAfterMs']));
      return done;
    case 'POST /settle':
      await books.settle();
      return done;
    case 'POST /clock':
      await books.advance(Math.max(0, Number(body['advanceMs'])));
      return done;
    case 'GET /audit':
      return { status: 200, body: books.audit() };
    case 'POST /reset':
      faults.length = 0;
      await books.reset();
      return done;
    default:
      return notFound;
  }
}

const bodyBytesMax = 64 * 1_024;

/** @throws for what is no JSON object. */
async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const bytes = await bodyWithin(request, bodyBytesMax);
  if (bytes === undefined) throw new Error('too large');
  if (bytes.length === 0) return {};
  const body: unknown = JSON.parse(bytes.toString('utf8'));
  if (typeof body !== 'object' || body === null) throw new Error('expected a JSON object');
  return body as Record<string, unknown>;
}

function queryOf({ url = '' }: IncomingMessage): URLSearchParams {
  return new URLSearchParams(url.split('?', 2)[1] ?? '');
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
