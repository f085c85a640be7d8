import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { settings } from './config.ts';
import { way } from './watch/way.ts';

/** Reconciles every layer: accepted records, ledger, provider, events, inboxes and deliveries. */
export const auditor = {
  name: 'auditor',
  ports: [adminPort({ usual: 18_150, published: 'TRIPLOCK_AUDITOR_ADMIN_PORTS' })],
  settings,
  role: 'triplock_auditor',
  connections: 11,
  schema: 'auditor',
  ledger: 'audits',
  claims: 'reads',
  kafka: {
    groups: { LEDGER_GROUP: 'ledger-worker', AUDITOR_GROUP: 'auditor' },
    rights: [
      { may: ['Read', 'DescribeConfigs'], topic: 'accepted' },
      { may: ['Read', 'DescribeConfigs'], topic: 'deadLetter' },
      { may: ['Read'], group: 'auditor' },
      { may: ['Read'], group: 'auditor-dead-letters' },
      { may: ['Describe'], group: 'ledger-worker' },
    ],
  },
  events: { does: 'receive', subscription: 'auditor' },
  provider: 'reads',
  crashPoints: ['auditor.received', 'auditor.committed'],
  metrics: ['triplock_auditor_', 'triplock_audit_', 'triplock_accepted_'],
  memoryMiB: 256,
  way,
} as const satisfies ServiceDeclaration;
