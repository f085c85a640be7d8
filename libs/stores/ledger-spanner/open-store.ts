import type { LedgerStoreKind } from '@triplock/ledger';
import { copyLedgerFrom } from './copy/copy-ledger.ts';
import { openSpannerLedger } from './open-spanner-ledger.ts';
import { openSpannerOutbox } from './open-spanner-outbox.ts';
import { openSpannerRefunds } from './open-spanner-refunds.ts';
import { missingForSpanner, spannerOptionsOf, spannerSettings } from './settings.ts';
import { openSpanner } from './spanner/open-spanner.ts';
import { takeDueFromSpanner } from './take-due.ts';
import { wakeDueInSpanner } from './wake-due.ts';

/** The ledger in Cloud Spanner, as a list of ledger stores names it. */
export const spannerLedgerStore: LedgerStoreKind<typeof spannerSettings> = {
  settings: spannerSettings,
  missing: missingForSpanner,
  open: async (settings, { callLimitMs }) => {
    const limits = callLimitMs === undefined ? {} : { callLimitMs };
    const database = await openSpanner({ ...spannerOptionsOf(settings), ...limits });
    return {
      ledger: openSpannerLedger(database),
      refunds: openSpannerRefunds(database),
      outbox: openSpannerOutbox(database),
      takeDue: takeDueFromSpanner(database),
      wakeDue: wakeDueInSpanner(database),
    };
  },
  openCopy: async (settings, copyTo) => {
    const spanner = await openSpanner(spannerOptionsOf(settings));
    return { copy: copyLedgerFrom(spanner, copyTo), close: () => spanner.close() };
  },
};
