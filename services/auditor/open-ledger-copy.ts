import { copyLedgerFrom, spannerPlaceOf, type CopyLedger } from '@triplock/ledger';
import { openDatabase } from '@triplock/postgres';
import { runLoop, type Service } from '@triplock/runtime';
import { openSpanner } from '@triplock/spanner';
import type { Config } from './config.ts';

/** How old the copy may be for whoever reads it between two audits. */
const copyEveryMs = 2_000;

/**
 * Keeps a copy of a ledger in Spanner in PostgreSQL, where the checks and other readers look for
 * it, for as long as the service runs. Nothing is copied where the ledger is there already.
 */
export async function openLedgerCopy(
  config: Config,
  { logger, onClose }: Service,
): Promise<CopyLedger | undefined> {
  if (config.LEDGER_STORE !== 'spanner') return undefined;
  const spanner = await openSpanner(spannerPlaceOf(config));
  onClose('spanner', () => spanner.close());
  const copyTo = openDatabase({
    url: config.LEDGER_COPY_URL!,
    applicationName: config.INSTANCE_NAME,
    connectionsMax: 2,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  onClose('ledger copy', () => copyTo.close());
  const copyLedger = copyLedgerFrom(spanner, copyTo);
  // A slice at a time, so that a shutdown need not wait for a backlog. It rests after the last one:
  // what came meanwhile can wait for a second.
  const pass = async () => {
    const { moreFollows } = await copyLedger({ counting: false, slicesMax: 1 });
    return moreFollows ? 1 : 0;
  };
  const loop = runLoop(pass, { name: 'copy ledger', idleMs: copyEveryMs, logger });
  onClose('copying', () => loop.stop());
  return copyLedger;
}
