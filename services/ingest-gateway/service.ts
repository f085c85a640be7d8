import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { settings } from './config.ts';
import { way } from './watch/way.ts';

/** Takes payments and refunds from partners, once per idempotency key, into Kafka. */
export const ingestGateway = {
  name: 'ingest-gateway',
  ports: [
    adminPort({ usual: 18_100, published: 'TRIPLOCK_GATEWAY_ADMIN_PORTS' }),
    {
      use: 'http',
      setting: 'HTTP_PORT',
      ready: '/healthz',
      usual: 18_080,
      variable: 'TRIPLOCK_GATEWAY_PORT',
      inside: 8_080,
      published: 'TRIPLOCK_GATEWAY_PORTS',
    },
  ],
  settings,
  role: 'triplock_gateway',
  connections: 8,
  ledger: 'reads',
  claims: 'takes',
  kafka: {
    groups: { LEDGER_GROUP: 'ledger-worker' },
    rights: [
      { may: ['Write', 'DescribeConfigs'], topic: 'accepted' },
      // How far the ledger is, when claims were lost.
      { may: ['Describe'], group: 'ledger-worker' },
    ],
  },
  crashPoints: ['gateway.claimed', 'gateway.produced', 'gateway.completed'],
  metrics: ['triplock_gateway_'],
  memoryMiB: 256,
  way,
} as const satisfies ServiceDeclaration;
