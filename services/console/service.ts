import { adminPort, type ServiceDeclaration } from '@triplock/runtime';
import { settings } from './config.ts';

/** Shows operators the whole system on pages and by an API, and does what they decide. */
export const operatorConsole = {
  name: 'console',
  copies: 'one',
  ports: [
    adminPort({ usual: 18_160, published: 'TRIPLOCK_CONSOLE_ADMIN_PORT' }),
    {
      use: 'http',
      setting: 'CONSOLE_PORT',
      ready: '/healthz',
      usual: 18_060,
      variable: 'TRIPLOCK_CONSOLE_PORT',
      inside: 8_060,
      published: 'TRIPLOCK_CONSOLE_PORT',
    },
  ],
  settings,
  role: 'triplock_console',
  connections: 8,
  schema: 'console',
  ledger: 'reads',
  claims: 'reads',
  provider: 'reads',
  crashPoints: ['console.act-begun', 'console.acted'],
  metrics: ['triplock_console_'],
  memoryMiB: 256,
} as const satisfies ServiceDeclaration;
