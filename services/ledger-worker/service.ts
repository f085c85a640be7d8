import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { settings } from './config.ts';
import { way } from './watch/way.ts';

/** Posts accepted payments to the ledger, has providers charge them, and settles both. */
export const ledgerWorker = {
  name: 'ledger-worker',
  ports: [
    {
      // Where providers report what they decided later.
      use: 'webhooks',
      setting: 'WEBHOOKS_PORT',
      ready: '/healthz',
      usual: 18_070,
      variable: 'TRIPLOCK_WEBHOOKS_PORT',
      inside: 8_070,
      published: 'TRIPLOCK_WEBHOOKS_PORTS',
    },
    adminPort({ usual: 18_110, published: 'TRIPLOCK_WORKER_ADMIN_PORTS' }),
  ],
  settings,
  role: 'triplock_ledger',
  connections: 8,
  ledger: 'posts',
  kafka: {
    groups: { LEDGER_GROUP: 'ledger-worker' },
    rights: [
      { may: ['Read', 'DescribeConfigs'], topic: 'accepted' },
      { may: ['Write', 'DescribeConfigs'], topic: 'deadLetter' },
      // Whether another server of the ledger has all of it.
      { may: ['Read'], topic: 'told' },
      { may: ['Read'], group: 'ledger-worker' },
    ],
  },
  provider: 'charges',
  crashPoints: [
    'worker.polled',
    'worker.committed',
    'worker.dead-lettered',
    'worker.offset-committed',
    'worker.intent-created',
    'worker.intent-stored',
    'worker.charged',
    'worker.given-up',
    'worker.authorized',
    'worker.reserved',
    'worker.refunded',
    'worker.captured',
    'worker.cancelled',
    'worker.disputed',
    'worker.settled',
  ],
  metrics: ['triplock_worker_'],
  memoryMiB: 256,
  way,
} as const satisfies ServiceDeclaration;
