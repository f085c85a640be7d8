import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  crashPointNames,
  noCrashPoints,
  type CrashAction,
  type CrashPoints,
} from './crash-points.ts';
import { withDeadline } from './deadline.ts';
import { explainListenError } from './listen-error.ts';
import type { Registry } from './metrics.ts';
import { integer } from './settings.ts';

/**
 * Asks one dependency whether it answers; throws when it does not. When the service goes on without
 * it, it resolves to what does not work meanwhile: the service is then ready, and says so.
 */
export type ReadinessCheck = () => Promise<void | { degraded: string }>;

/** What a service shows its operators. */
export type AdminOptions = {
  host: string;
  port: number;
  metrics: Registry;
  /** By dependency, e.g. `{ redis, kafka, postgres }`. Each gets 2 s. */
  readiness: Readonly<Record<string, ReadinessCheck>>;
  crashPoints: CrashPoints;
  /** Further routes by `METHOD /path`, such as the auditor's audit. */
  routes?: Readonly<Record<string, AdminRoute>>;
};

/** Answers one admin request with a JSON value. */
export type AdminRoute = (query: URLSearchParams) => Promise<{ status: number; body: unknown }>;

/** A listening admin server. */
export type AdminServer = { close(): Promise<void> };

const readinessTimeoutMs = 2_000;

/**
 * Serves `/healthz` (the process turns), `/readyz` (every dependency was really asked), `/metrics`,
 * and `/crash-points` where those may be armed. Rejects when the port is taken.
 */
export async function serveAdmin(options: AdminOptions): Promise<AdminServer> {
  const server = createServer((request, response) => {
    answer(request, options).then(
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

type Answer = { status: number; body: unknown; text?: boolean };

const notFound: Answer = { status: 404, body: { error: 'not found' } };

async function answer(request: IncomingMessage, options: AdminOptions): Promise<Answer> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://admin');
  switch (`${request.method} ${pathname}`) {
    case 'GET /healthz':
      return { status: 200, body: { status: 'ok' } };
    case 'GET /readyz':
      return readiness(options.readiness);
    case 'GET /metrics':
      return { status: 200, body: await options.metrics.metrics(), text: true };
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
  const verdicts = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => ({
      name,
      ...(await verdict(name, check)),
    })),
  );
  const ready = verdicts.every(({ state }) => state !== 'away');
  const degraded = verdicts.some(({ state }) => state === 'degraded');
  const told = Object.fromEntries(verdicts.map(({ name, word }) => [name, word]));
  const body = { ready, ...(degraded ? { degraded } : {}), checks: told };
  return { status: ready ? 200 : 503, body };
}

type Verdict = { state: 'ok' | 'degraded' | 'away'; word: string };

async function verdict(name: string, check: ReadinessCheck): Promise<Verdict> {
  try {
    const limits = await withDeadline(check(), { ms: readinessTimeoutMs, what: name });
    return limits === undefined
      ? { state: 'ok', word: 'ok' }
      : { state: 'degraded', word: limits.degraded };
  } catch (error) {
    return { state: 'away', word: messageOf(error) };
  }
}

const pauseLimit = integer({ min: 0, max: 600_000 });
const timesLimit = integer({ min: 1, max: 1_000_000 });

/** `POST /crash-points?name=…&action=kill|throw|pause&pauseMs=…&times=…`; `action=off` disarms. */
function arm(query: URLSearchParams, points: CrashPoints): Answer {
  const name = crashPointNames.find((each) => each === query.get('name'));
  const action = query.get('action');
  const pauseMs = pauseLimit.parse(query.get('pauseMs') ?? '0');
  const times = timesLimit.parse(query.get('times') ?? '1');
  if (name === undefined || !['kill', 'throw', 'pause', 'off'].includes(action ?? '')) {
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
  const body = result.text ? String(result.body) : JSON.stringify(result.body);
  const type = result.text ? 'text/plain; version=0.0.4' : 'application/json';
  response.writeHead(result.status, { 'content-type': type }).end(body);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
