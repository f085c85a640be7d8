import type { ClaimOutcome, Claims } from '@triplock/claims';
import { transactionKinds, type TransactionKind } from '@triplock/payments';
import {
  duplicatesCaught,
  Durations,
  Gauge,
  Histogram,
  Tally,
  usualBuckets,
  type Registry,
} from '@triplock/runtime';
import type { QuestionOutcome } from '../accept/ledger-questions.ts';
import { partLeft, type ReadBack } from '../accept/read-back.ts';
import type { FastifyInstance, FastifyReply, onResponseHookHandler } from 'fastify';

/**
 * What came of a request to accept something; `refused` before it was anything to accept, `shed`
 * because too much waited already.
 */
type AcceptLabel =
  'accepted' | 'replayed' | 'reused' | 'refused' | 'shed' | 'in-flight' | 'cold' | 'unavailable';

/** The gateway's own figures. */
export type GatewayMetrics = {
  /** Every request that a partner sent, by route and class of its status. */
  requestSeconds: Histogram<'method' | 'route' | 'status'>;
  /** Requests to accept something, by its kind. */
  accepts: Readonly<Record<TransactionKind, Tally<AcceptLabel>>>;
  /** Requests for which guard 1 knew an answer, or somebody at work on one. */
  caught: Tally<'claims'>;
  /** Claims by outcome; one that met a cold bucket is asked for again. */
  claims: Tally<ClaimOutcome['outcome'] | 'unavailable'>;
  /** A key was asked about at the ledger because claims were lost. */
  questions(outcome: QuestionOutcome): void;
  claimSeconds: Histogram;
  appendSeconds: Durations<'appended' | 'failed'>;
  reads: Tally<'found' | 'not-found' | 'cold' | 'unavailable'>;
  lists: Tally<'page' | 'unknown-cursor' | 'not-found' | 'cold' | 'unavailable'>;
  waiters: Gauge;
};

/**
 * Registers the gateway's figures, with the memory of its claim store where that has one, and how
 * many may wait for which store.
 */
export function gatewayMetrics(
  registry: Registry,
  claims: Pick<Claims, 'memory'> = {},
  backlogs: Readonly<Record<string, { limit(): number }>> = {},
): GatewayMetrics {
  const registers = [registry];
  addMemoryGauges(registry, claims);
  addLimitGauge(registry, backlogs);
  return {
    requestSeconds: new Histogram({
      name: 'triplock_gateway_request_seconds',
      help: 'Time from the request head to the end of the response, by route and status class.',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3],
      registers,
    }),
    accepts: acceptTallies(registry),
    caught: duplicatesCaught(registry, 'claims'),
    ...guardMetrics(registry),
    reads: new Tally({
      name: 'triplock_gateway_reads_total',
      help: 'Reads of one payment or refund, by outcome.',
      label: 'outcome',
      values: { found: 0, 'not-found': 0, cold: 0, unavailable: 0 },
      registers,
    }),
    lists: new Tally({
      name: 'triplock_gateway_lists_total',
      help: 'Requests for a page of payments or refunds, by outcome.',
      label: 'outcome',
      values: { page: 0, 'unknown-cursor': 0, 'not-found': 0, cold: 0, unavailable: 0 },
      registers,
    }),
    waiters: new Gauge({
      name: 'triplock_gateway_waiting_reads',
      help: 'Reads that are waiting for a payment or refund to become final.',
      registers,
    }),
  };
}

function acceptTallies(registry: Registry): GatewayMetrics['accepts'] {
  const tallies = transactionKinds.map((kind) => [kind, acceptTally(registry, kind)]);
  return Object.fromEntries(tallies) as GatewayMetrics['accepts'];
}

function acceptTally(registry: Registry, what: TransactionKind): Tally<AcceptLabel> {
  const unanswered = { 'in-flight': 0, cold: 0, unavailable: 0 } as const;
  return new Tally({
    name: `triplock_gateway_${what}s_total`,
    help: `Requests for a ${what}, by outcome.`,
    label: 'outcome',
    values: { accepted: 0, replayed: 0, reused: 0, refused: 0, shed: 0, ...unanswered },
    registers: [registry],
  });
}

/** Where the time of accepting goes, and what guard 1 says. */
function guardMetrics(
  registry: Registry,
): Pick<GatewayMetrics, 'claims' | 'questions' | 'claimSeconds' | 'appendSeconds'> {
  const registers = [registry];
  const questions = new Tally<QuestionOutcome>({
    name: 'triplock_gateway_ledger_questions_total',
    help: 'Keys that the ledger was asked about because claims were lost, by its answer.',
    label: 'outcome',
    values: { posted: 0, 'not-posted': 0, unavailable: 0 },
    registers,
  });
  const notClaimed = { 'over-limit': 0, cold: 0, unavailable: 0 } as const;
  return {
    claims: new Tally({
      name: 'triplock_gateway_claims_total',
      help: 'Claim requests to the claim store, by its answer.',
      label: 'outcome',
      values: { claimed: 0, completed: 0, reused: 0, 'in-flight': 0, ...notClaimed },
      registers,
    }),
    questions: (outcome) => questions.count(outcome),
    claimSeconds: new Histogram({
      name: 'triplock_gateway_claim_seconds',
      help: 'Time the claim store took to answer a claim, or until it was given up.',
      buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2],
      registers,
    }),
    appendSeconds: new Durations({
      name: 'triplock_gateway_append_seconds',
      help: 'Time until every in-sync replica had an accepted record. failed: unknown or refused.',
      buckets: usualBuckets,
      outcomes: ['appended', 'failed'],
      registers,
    }),
  };
}

/** Without a value while the store is away, or without a limit. */
function addMemoryGauges(registry: Registry, { memory }: Pick<Claims, 'memory'>): void {
  if (memory === undefined) return;
  const registers = [registry];
  const show = (gauge: Gauge, bytes: number | undefined) => {
    if (bytes === undefined) gauge.remove();
    else gauge.set(bytes);
  };
  new Gauge({
    name: 'triplock_gateway_claims_memory_bytes',
    help: 'Memory that the claim store uses.',
    registers,
    collect() {
      show(this, memory()?.usedBytes);
    },
  });
  new Gauge({
    name: 'triplock_gateway_claims_memory_limit_bytes',
    help: 'Memory that the claim store may use; without it, whatever its machine has.',
    registers,
    collect() {
      show(this, memory()?.limitBytes);
    },
  });
}

function addLimitGauge(
  registry: Registry,
  backlogs: Readonly<Record<string, { limit(): number }>>,
): void {
  new Gauge({
    name: 'triplock_gateway_waiting_limit',
    help: 'Requests that may wait for a store at once; more are shed. +Inf: no limit is needed.',
    labelNames: ['store'],
    registers: [registry],
    collect() {
      for (const [store, { limit }] of Object.entries(backlogs)) this.set({ store }, limit());
    },
  });
}

/** Registers how much of what a gateway's claim store lost is still to be read back. */
export function addReadBackGauge(registry: Registry, { state }: Pick<ReadBack, 'state'>): void {
  new Gauge({
    name: 'triplock_gateway_cold_ratio',
    help: 'How much of the last day is to be read back from the ledger, as claims were lost; 0: warm.',
    registers: [registry],
    collect() {
      this.set(partLeft(state()));
    },
  });
}

/** Informational answers and redirects are none of ours. */
const classes = ['2xx', '4xx', '5xx'] as const;

type Observe = (statusCode: number, seconds: number) => void;

/**
 * Times every request by its route as it was declared, so that no id and no made-up path becomes a
 * label: what no route takes is `none`. Call it before there is any route. The series of a route
 * are there with it, and the labels are put together once.
 */
export function measureRequests({ requestSeconds }: GatewayMetrics) {
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
