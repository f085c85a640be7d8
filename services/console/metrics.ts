import { Counter, Gauge, Histogram, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';

/** What the console counts. */
export type ConsoleMetrics = {
  /** Every request but event streams, by its route and the class of its status. */
  requestSeconds: Histogram<'method' | 'route' | 'status'>;
  /** Event streams that browsers keep open. */
  streams: Gauge;
  /** Acts that were asked for and begun, by what came of them. */
  acts: Counter<'kind' | 'outcome'>;
  /** Processes that were asked how they are, by whether they told. */
  looks: Tally<'told' | 'away'>;
};

/** What an act that was begun can come to. */
const outcomes = ['done', 'nothing', 'refused', 'unknown'] as const;

/** Registers the console's metrics, with a series for every kind of act and what it can come to. */
export function consoleMetrics(registry: Registry, kinds: readonly string[]): ConsoleMetrics {
  const registers = [registry];
  const acts = new Counter({
    name: 'triplock_console_acts_total',
    help: 'Acts of operators by pages and the API, by kind and outcome. unknown: a part broke.',
    labelNames: ['kind', 'outcome'],
    registers,
  });
  for (const kind of kinds) for (const outcome of outcomes) acts.inc({ kind, outcome }, 0);
  return {
    requestSeconds: new Histogram({
      name: 'triplock_console_request_seconds',
      help: 'Time until a page or an answer of the API was sent, by route and status class.',
      labelNames: ['method', 'route', 'status'],
      buckets: [...usualBuckets],
      registers,
    }),
    streams: new Gauge({
      name: 'triplock_console_streams',
      help: 'Browsers that look at the flow now.',
      registers,
    }),
    acts,
    looks: new Tally({
      name: 'triplock_console_looks_total',
      help: 'Processes that were asked how they are, by whether they told.',
      label: 'outcome',
      values: { told: 0, away: 0 },
      registers,
    }),
  };
}

/**
 * Times every request by its route as the table has it, so that no id and no made-up path becomes
 * a label: what no route takes is `none`. A series begins with its first request: those of every
 * route from the start would be most of what this process tells.
 */
export function measureRequests(app: FastifyInstance, { requestSeconds }: ConsoleMetrics): void {
  app.addHook('onResponse', async (request, reply) => {
    // How long a browser looks is no time that it waits for us.
    if (String(reply.getHeader('content-type')).startsWith('text/event-stream')) return;
    const { url: route = 'none' } = request.is404 ? {} : request.routeOptions;
    const status = `${Math.floor(reply.statusCode / 100)}xx`;
    const method = route === 'none' ? 'any' : request.method;
    requestSeconds.observe({ method, route, status }, reply.elapsedTime / 1_000);
  });
}
