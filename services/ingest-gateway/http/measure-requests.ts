import type { FastifyInstance, FastifyReply, onResponseHookHandler } from 'fastify';
import type { GatewayMetrics } from './metrics.ts';

/** Informational answers and redirects are none of ours. */
const classes = ['2xx', '4xx', '5xx'] as const;

type Observe = (statusCode: number, seconds: number) => void;

/**
 * Times every request by its route as it was declared, so that no id and no made-up path becomes a
 * label: what no route takes is `none`. Call it before there is any route. The series of a route
 * are there with it, and the labels are put together once.
 */
export function measureRequests({ requestSeconds }: Pick<GatewayMetrics, 'requestSeconds'>) {
  return (app: FastifyInstance): void => {
    app.addHook('onRoute', (route) => {
      const observe = observerOf(requestSeconds, {
        method: [route.method].flat().join(' '),
        route: route.url,
      });
      route.onResponse = [hookOf(observe), ...[route.onResponse ?? []].flat()];
    });
    const observeOthers = observerOf(requestSeconds, { method: 'any', route: 'none' });
    app.addHook('onResponse', (request, reply, done) => {
      if (request.is404) observe(observeOthers, reply);
      done();
    });
  };
}

function observerOf(
  seconds: GatewayMetrics['requestSeconds'],
  place: { method: string; route: string },
): Observe {
  const [ok, refused, failed] = classes.map((status) => {
    const labels = { ...place, status };
    // Fastify adds HEAD to every GET, and nobody asks: its series are there with its first request.
    if (place.method !== 'HEAD') seconds.zero(labels);
    return seconds.labels(labels);
  });
  return (statusCode, took) => {
    const series = statusCode >= 500 ? failed : statusCode >= 400 ? refused : ok;
    series!.observe(took);
  };
}

function hookOf(observer: Observe): onResponseHookHandler {
  return (_request, reply, done) => {
    observe(observer, reply);
    done();
  };
}

function observe(observer: Observe, reply: FastifyReply): void {
  observer(reply.statusCode, reply.elapsedTime / 1_000);
}
