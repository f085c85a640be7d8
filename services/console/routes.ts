import { actRoutes } from './acts/acts-pages.ts';
import { breakRoutes } from './break/break-page.ts';
import type { Route } from './console.ts';
import { loginRoutes } from './edge/login.ts';
import { flowRoutes } from './flow/flow-page.ts';
import { auditRoutes } from './lists/audit-page.ts';
import { deadLetterRoutes } from './lists/dead-letters-page.ts';
import { partnersRoutes } from './lists/partners-page.ts';
import { settlementRoutes } from './lists/settlements-page.ts';
import { webhookRoutes } from './lists/webhooks-page.ts';
import { layersRoutes } from './payments/payment-layers.ts';
import { paymentRoutes } from './payments/payment-page.ts';
import { paymentsRoutes } from './payments/payments-page.ts';

/** Every page and every path of the API; docs/operating.md has the same table, held by a test. */
export const routes: readonly Route[] = [
  ...flowRoutes,
  ...paymentsRoutes,
  ...paymentRoutes,
  ...layersRoutes,
  ...deadLetterRoutes,
  ...webhookRoutes,
  ...settlementRoutes,
  ...partnersRoutes,
  ...auditRoutes,
  ...breakRoutes,
  ...actRoutes,
  ...loginRoutes,
  {
    method: 'GET',
    path: '/openapi.json',
    role: 'anyone',
    answer: async () => ({ is: 'description' }),
  },
];
