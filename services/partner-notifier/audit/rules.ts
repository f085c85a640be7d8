import type { Rules } from '@triplock/pipeline';

/** When the checks of what the notifier and its sender did must find nothing. */
export const rules = {
  'inbox-missing': { holds: 'in the end' },
  'delivery-waiting': { holds: 'in the end' },
  'delivery-refused': { holds: 'once others acted', waitsFor: 'endpoint' },
  'delivery-parked': { holds: 'once others acted', waitsFor: 'endpoint' },
  'delivery-given-up': { holds: 'once others acted', waitsFor: 'endpoint' },
  'reaped-differs-from-published': { holds: 'in the end', whole: true },
  'delivery-differs-from-inbox': { holds: 'always' },
  'delivery-differs-from-endpoints': { holds: 'always' },
  'delivery-tells-otherwise': { holds: 'always' },
  'feed-out-of-order': { holds: 'always' },
  'delivery-differs-from-attempts': { holds: 'always' },
} as const satisfies Rules;
