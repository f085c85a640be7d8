import { Counter, Gauge, Histogram, type Registry } from '@triplock/runtime';

/** The gateway's own figures. */
export type GatewayMetrics = {
  payments: Counter<'outcome'>;
  refunds: Counter<'outcome'>;
  acceptSeconds: Histogram;
  reads: Counter<'outcome'>;
  lists: Counter<'outcome'>;
  waiters: Gauge;
  /** A request met a cold bucket. */
  metCold(): void;
};

// Longer than any scrape interval, so that a cold spell with little traffic is seen.
const coldForMs = 60_000;

/** Registers the gateway's figures. */
export function gatewayMetrics(registry: Registry): GatewayMetrics {
  const registers = [registry];
  let coldAt = -Infinity;
  new Gauge({
    name: 'triplock_gateway_cold',
    help: '1 when a request of the last minute met lost claims and was checked with the ledger.',
    registers,
    collect() {
      this.set(performance.now() - coldAt < coldForMs ? 1 : 0);
    },
  });
  return {
    payments: new Counter({
      name: 'triplock_gateway_payments_total',
      help: 'Requests for a payment by what came of them.',
      labelNames: ['outcome'],
      registers,
    }),
    refunds: new Counter({
      name: 'triplock_gateway_refunds_total',
      help: 'Requests for a refund by what came of them.',
      labelNames: ['outcome'],
      registers,
    }),
    acceptSeconds: new Histogram({
      name: 'triplock_gateway_accept_seconds',
      help: 'Time from a valid request to its outcome.',
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3],
      registers,
    }),
    reads: new Counter({
      name: 'triplock_gateway_reads_total',
      help: 'Reads of one payment or refund by what came of them.',
      labelNames: ['outcome'],
      registers,
    }),
    lists: new Counter({
      name: 'triplock_gateway_lists_total',
      help: 'Pages of payments and refunds by what came of asking for one.',
      labelNames: ['outcome'],
      registers,
    }),
    waiters: new Gauge({
      name: 'triplock_gateway_waiting_reads',
      help: 'Reads that wait for a payment or refund to become final.',
      registers,
    }),
    metCold: () => void (coldAt = performance.now()),
  };
}
