import { faultKinds } from '../faults.ts';
import { operations } from '../requests.ts';
import { webhookOrders } from '../engine.ts';

const strict = { type: 'object', additionalProperties: false } as const;
const milliseconds = { type: 'integer', minimum: 0, maximum: 86_400_000 } as const;

/** What control requests may say. Anything else is a 400: a misspelt fault must not be no fault. */
export const schemas = {
  fault: {
    ...strict,
    required: ['fault'],
    properties: {
      fault: { enum: faultKinds },
      operation: { enum: operations.map(({ name }) => name) },
      probability: { type: 'number', minimum: 0, maximum: 1 },
      count: { type: 'integer', minimum: 1 },
      delayMs: milliseconds,
      retryAfterSeconds: { type: 'integer', minimum: 0, maximum: 3_600 },
    },
  },
  seed: { ...strict, required: ['seed'], properties: { seed: { type: 'integer' } } },
  settings: {
    ...strict,
    properties: {
      searchLagMs: milliseconds,
      settleAfterMs: milliseconds,
      latency: {
        ...strict,
        required: ['medianMs', 'p99Ms'],
        properties: { medianMs: milliseconds, p99Ms: milliseconds },
      },
    },
  },
  clock: {
    ...strict,
    oneOf: [{ required: ['advanceMs'] }, { required: ['offsetMs'] }],
    properties: { advanceMs: { type: 'integer' }, offsetMs: { type: 'integer' } },
  },
  webhooks: {
    ...strict,
    properties: {
      url: { type: ['string', 'null'], pattern: '^https?://' },
      secret: { type: 'string', minLength: 1 },
      order: { enum: webhookOrders },
      copies: { type: 'integer', minimum: 1, maximum: 10 },
      paused: { type: 'boolean' },
    },
  },
  replay: { ...strict, properties: { event: { type: 'string' }, type: { type: 'string' } } },
  settle: { ...strict, properties: { id: { type: 'string' } } },
  authenticate: {
    ...strict,
    required: ['outcome'],
    properties: { outcome: { enum: ['succeeded', 'failed'] } },
  },
} as const;
