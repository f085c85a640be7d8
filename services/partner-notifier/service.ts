import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { rules } from './audit/rules.ts';
import { settings } from './config.ts';
import { watch } from './watch/watch.ts';

/** Sends partners signed webhooks about what became of their payments and refunds. */
export const partnerNotifier = {
  name: 'partner-notifier',
  ports: [adminPort({ usual: 18_130, published: 'TRIPLOCK_NOTIFIER_ADMIN_PORTS' })],
  settings,
  role: 'triplock_notifier',
  connections: 8,
  schema: 'notifier',
  inbox: true,
  events: { does: 'receive', subscription: 'partner-notifier' },
  callsPartners: true,
  crashPoints: [
    'notifier.received',
    'notifier.committed',
    'webhook.leased',
    'webhook.answered',
    'webhook.recorded',
  ],
  metrics: ['triplock_notifier_', 'triplock_webhook_', 'triplock_webhooks_'],
  memoryMiB: 256,
  rules,
  watch,
} as const satisfies ServiceDeclaration;
