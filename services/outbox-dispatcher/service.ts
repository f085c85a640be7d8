import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { settings } from './config.ts';
import { way } from './watch/way.ts';

/** Publishes the outbox's events to Pub/Sub, each bucket by one dispatcher at a time. */
export const outboxDispatcher = {
  name: 'outbox-dispatcher',
  ports: [adminPort({ usual: 18_120, published: 'TRIPLOCK_DISPATCHER_ADMIN_PORTS' })],
  settings,
  role: 'triplock_dispatcher',
  connections: 8,
  ledger: 'publishes',
  kafka: { groups: {}, rights: [{ may: ['Write', 'DescribeConfigs'], topic: 'told' }] },
  events: { does: 'publish' },
  crashPoints: [
    'dispatcher.leased',
    'dispatcher.archived',
    'dispatcher.published',
    'dispatcher.marked',
  ],
  metrics: ['triplock_dispatcher_', 'triplock_outbox_'],
  memoryMiB: 256,
  way,
} as const satisfies ServiceDeclaration;
