import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isLoopback, refusedControl, refusedPage } from './control-access.ts';
import { shareReads } from './concurrency.ts';
import { noCrashPoints, type CrashAction, type CrashPoints } from './crash-points.ts';
import { createBoundedServer } from './http-connections.ts';
import { withDeadline } from './loop.ts';
import { renderMetrics, type Registry } from './metrics.ts';
import { integer } from './settings.ts';

/**
 * Asks one dependency whether it answers; throws when it does not. When the service goes on without
 * it, it resolves to what does not work meanwhile: the service is then ready, and says so.
 */
export type ReadinessCheck = () => Promise<void | { degraded: string }>;

/** What a service shows its operators besides its metrics. */
export type ShownToOperators = {
  /** By dependency, e.g. `{ redis, kafka, postgres }`. Each gets 2 s. */
  readiness: Readonly<Record<string, ReadinessCheck>>;
  /** Further routes by `METHOD /path`, such as the auditor's audit. */
  routes?: Readonly<Record<string, AdminRoute>>;
};

/** Where it is shown, and what every service shows. */
export type AdminOptions = ShownToOperators & {
  host: string;
  port: number;
  metrics: Registry;
  crashPoints: CrashPoints;
  /** Who asks for crash points has to show it; without one nobody may. */
  controlToken?: string | undefined;
};

/** Answers one admin request with a JSON value. */
export type AdminRoute = (query: URLSearchParams) => Promise<{ status: number; body: unknown }>;

/** A listening admin server. */
export type AdminServer = { close(): Promise<void> };

const readinessTimeoutMs = 2_000;
/** All metrics take milliseconds to put together, in which nothing else is done. */
const metricsApartMs = 50;

/**
 * Serves `/healthz` (the event loop turns), `/readyz` (every dependency was really asked),
 * `/metrics` (`?name[]=…&name[]=…`: those alone), and `/crash-points` where those may be armed.
 * Programs ask it: what a page has a browser send is refused, and GET has no effect. Rejects when
 * the port is taken.
 */
export async function serveAdmin(options: AdminOptions): Promise<AdminServer> {
  // However many ask, and however often, each of these is done a bounded part of the time.
  const shared = {
    allMetrics: shareReads(async () => Buffer.from(await renderMetrics(options.metrics)), {
      apartMs: metricsApartMs,
    }),
    readiness: shareReads(() => readiness(options.readiness)),
  };
  const server = createBoundedServer((request, response) => {
    answer(request, options, shared).then(
      (result) => send(response, result),
      (error: unknown) => send(response, { status: 500, body: { error: messageOf(error) } }),
    );
  });
  await listen(server, options);
  return {
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error ? reject(error) : resolve()));
        server.closeAllConnections();
      }),
  };
}

type Shared = { allMetrics(): Promise<Buffer>; readiness(): Promise<Answer> };
type Answer =
  | { status: number; body: unknown; text?: false }
  | { status: number; body: string | Buffer; text: true };

const notFound: Answer = { status: 404, body: { error: 'not found' } };

async function answer(
  request: IncomingMessage,
  options: AdminOptions,
  shared: Shared,
): Promise<Answer> {
  // In a demo it may listen on a network too, which is that of its containers.
  const isDemo = options.crashPoints !== noCrashPoints;
  const callers = isDemo || isLoopback(options.host) ? 'of this machine' : 'of a network';
  const page = refusedPage(request, { callers });
  if (page !== undefined) return { status: 403, body: { error: page } };
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://admin');
  if (pathname === '/crash-points' && options.crashPoints !== noCrashPoints) {
    const refused = refusedControl(request, options.controlToken);
    if (refused !== undefined) return { status: 403, body: { error: refused } };
  }
  switch (`${request.method} ${pathname}`) {
    case 'GET /healthz':
      return { status: 200, body: { status: 'ok' } };
    case 'GET /readyz':
      return shared.readiness();
    case 'GET /metrics': {
      const names = searchParams.getAll('name[]');
      const few = names.length > 0;
      const body = await (few ? renderMetrics(options.metrics, names) : shared.allMetrics());
      return { status: 200, body, text: true };
    }
    case 'GET /crash-points':
      if (options.crashPoints === noCrashPoints) return notFound;
      return { status: 200, body: { hits: options.crashPoints.hits() } };
    case 'POST /crash-points':
      if (options.crashPoints === noCrashPoints) return notFound;
      return arm(searchParams, options.crashPoints);
  }
  const route = options.routes?.[`${request.method} ${pathname}`];
  return route ? route(searchParams) : notFound;
}

async function readiness(checks: AdminOptions['readiness']): Promise<Answer> {
  const checked = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => ({
      name,
      ...(await dependencyState(name, check)),
    })),
  );
  const ready = checked.every(({ state }) => state !== 'unreachable');
  const degraded = checked.some(({ state }) => state === 'degraded');
  const details = Object.fromEntries(checked.map(({ name, detail }) => [name, detail]));
  const body = { ready, ...(degraded ? { degraded } : {}), checks: details };
  return { status: ready ? 200 : 503, body };
}

type DependencyState = { state: 'ok' | 'degraded' | 'unreachable'; detail: string };

async function dependencyState(name: string, check: ReadinessCheck): Promise<DependencyState> {
  try {
    const limits = await withDeadline(check(), { ms: readinessTimeoutMs, what: name });
    return limits === undefined
      ? { state: 'ok', detail: 'ok' }
      : { state: 'degraded', detail: limits.degraded };
  } catch (error) {
    return { state: 'unreachable', detail: messageOf(error) };
  }
}

const pauseLimit = integer({ min: 0, max: 600_000 });
const timesLimit = integer({ min: 1, max: 1_000_000 });

/** `POST /crash-points?name=…&action=kill|throw|pause&pauseMs=…&times=…`; `action=off` disarms. */
function arm(query: URLSearchParams, points: CrashPoints): Answer {
  const name = query.get('name') ?? '';
  const action = query.get('action');
  const pauseMs = pauseLimit.parse(query.get('pauseMs') ?? '0');
  const times = timesLimit.parse(query.get('times') ?? '1');
  if (
    name === '' ||
    !points.has(name) ||
    !['kill', 'throw', 'pause', 'off'].includes(action ?? '')
  ) {
    return { status: 400, body: { error: 'give name, and action=kill|throw|pause|off' } };
  }
  if (pauseMs === undefined || times === undefined) {
    const error = `pauseMs is ${pauseLimit.expected}, times ${timesLimit.expected}`;
    return { status: 400, body: { error } };
  }
  if (action === 'off') points.disarm(name);
  else points.arm({ name, action: { do: action, pauseMs } as CrashAction, times });
  return { status: 200, body: { name, action } };
}

function listen(server: Server, { port, host }: { port: number; host: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(explainListenError(error, 'ADMIN_PORT')));
    server.listen({ port, host }, resolve);
  });
}

function send(response: ServerResponse, result: Answer): void {
  const body = result.text ? result.body : JSON.stringify(result.body);
  const type = result.text ? 'text/plain; version=0.0.4' : 'application/json';
  response.writeHead(result.status, { 'content-type': type }).end(body);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

/**
 * Says in one sentence why a server could not listen and which setting to change. Errors that are
 * not about the port come back as they are.
 */
export function explainListenError(error: Error, variable: string): Error {
  const { code, address, port } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  if (code === 'EADDRINUSE') {
    return new Error(`port ${port} on ${address} is taken: free it or set ${variable} to another`);
  }
  if (code === 'EACCES') {
    return new Error(
      `port ${port} on ${address} is not allowed: set ${variable} to one above 1023`,
    );
  }
  return error;
}
