import { createDocument } from '@triplock/runtime';
import { toJson } from '@triplock/command';
import { actRoutes } from './acts/acts-pages.ts';
import type { Answer, Route } from './console.ts';
import { readFlow, showFlow, tellFlow } from './flow/flow-page.ts';
import { readPayment, showPayment, showRawForms } from './payments/payment-page.ts';
import { readPartners, showPartners } from './lists/partners-page.ts';
import { readLayers, showLayers } from './payments/payment-layers.ts';
import {
  downloadPayments,
  findPayment,
  readFound,
  readPayments,
  showPayments,
} from './payments/payments-page.ts';
import { readAudit, showAudit } from './lists/audit-page.ts';
import {
  readDeadLetters,
  readLetter,
  showDeadLetters,
  showDeadRecords,
  showLetter,
} from './lists/dead-letters-page.ts';
import {
  downloadSettlements,
  readSettlements,
  readWebhooks,
  showSettlements,
  showWebhooks,
} from './lists/listing-pages.ts';
import { breakRoutes } from './break/break-page.ts';
import { loginRoutes } from './edge/login.ts';
import { describeApi } from './edge/openapi.ts';

/** The pages that only look, and the same for programs. */
const pageRoutes: readonly Route[] = [
  { method: 'GET', path: '/', role: 'viewer', answer: showFlow },
  { method: 'GET', path: '/flow/events', role: 'viewer', answer: tellFlow },
  { method: 'GET', path: '/payments', role: 'viewer', answer: showPayments },
  { method: 'GET', path: '/payments.csv', role: 'viewer', answer: downloadPayments },
  { method: 'GET', path: '/payments/find', role: 'viewer', answer: findPayment },
  { method: 'GET', path: '/payments/:id', role: 'viewer', answer: showPayment },
  { method: 'GET', path: '/payments/:id/layers', role: 'viewer', answer: showLayers },
  { method: 'GET', path: '/payments/:id/raw', role: 'viewer', answer: showRawForms },
  { method: 'GET', path: '/api/v1/flow', role: 'viewer', answer: readFlow },
  { method: 'GET', path: '/api/v1/payments', role: 'viewer', answer: readPayments },
  { method: 'GET', path: '/api/v1/payments/find', role: 'viewer', answer: readFound },
  { method: 'GET', path: '/api/v1/payments/:id', role: 'viewer', answer: readPayment },
  { method: 'GET', path: '/api/v1/payments/:id/layers', role: 'viewer', answer: readLayers },
  { method: 'GET', path: '/dead-letters', role: 'viewer', answer: showDeadLetters },
  { method: 'GET', path: '/dead-letters/records', role: 'viewer', answer: showDeadRecords },
  { method: 'GET', path: '/dead-letters/:id', role: 'viewer', answer: showLetter },
  { method: 'GET', path: '/webhooks', role: 'viewer', answer: showWebhooks },
  { method: 'GET', path: '/settlements', role: 'viewer', answer: showSettlements },
  { method: 'GET', path: '/settlements.csv', role: 'viewer', answer: downloadSettlements },
  { method: 'GET', path: '/partners', role: 'viewer', answer: showPartners },
  { method: 'GET', path: '/audit', role: 'viewer', answer: showAudit },
  { method: 'GET', path: '/api/v1/dead-letters', role: 'viewer', answer: readDeadLetters },
  { method: 'GET', path: '/api/v1/dead-letters/:id', role: 'viewer', answer: readLetter },
  { method: 'GET', path: '/api/v1/webhooks', role: 'viewer', answer: readWebhooks },
  { method: 'GET', path: '/api/v1/settlements', role: 'viewer', answer: readSettlements },
  { method: 'GET', path: '/api/v1/partners', role: 'viewer', answer: readPartners },
  { method: 'GET', path: '/api/v1/audit', role: 'viewer', answer: readAudit },
];

/** Every page and every path of the API; docs/operating.md has the same table, held by a test. */
export const routes: readonly Route[] = [
  ...pageRoutes,
  ...breakRoutes,
  ...actRoutes,
  ...loginRoutes,
  { method: 'GET', path: '/openapi.json', role: 'anyone', answer: readDescription },
];

/** The OpenAPI document of the paths of the API, as `npm run generate` writes it down. */
export const description = describeApi(routes);

const document = createDocument('application/json', toJson(description));

async function readDescription(): Promise<Answer> {
  return { is: 'document', document };
}
