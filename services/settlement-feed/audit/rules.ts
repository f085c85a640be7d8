import type { Rules } from '@triplock/pipeline';

/** When the checks of what the settlement feed did must find nothing. */
export const rules = {
  'settlement-missing': { holds: 'in the end' },
  'settlement-differs-from-ledger': { holds: 'always' },
  'settlement-differs-from-lines': { holds: 'always' },
} as const satisfies Rules;
