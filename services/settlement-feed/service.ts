import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { rules } from './audit/rules.ts';
import { settings } from './config.ts';
import { watch } from './watch/watch.ts';

/** Adds settled payments and refunds to the day's batch of each partner and currency. */
export const settlementFeed = {
  name: 'settlement-feed',
  ports: [adminPort({ usual: 18_140, published: 'TRIPLOCK_SETTLEMENT_ADMIN_PORTS' })],
  settings,
  role: 'triplock_settlement',
  connections: 8,
  schema: 'settlement',
  inbox: true,
  events: { does: 'receive', subscription: 'settlement-feed' },
  crashPoints: ['settlement.received', 'settlement.committed'],
  metrics: ['triplock_settlement_'],
  memoryMiB: 256,
  rules,
  watch,
} as const satisfies ServiceDeclaration;
