import type { CopyLedger } from '@triplock/ledger';
import { openDatabase } from '@triplock/postgres';
import { runLoop, type Service } from '@triplock/runtime';
import { openLedgerCopy as openCopyOf } from '@triplock/ledgers';
import type { Config } from './config.ts';

/** How old the copy may be for whoever reads it between two audits. */
const copyEveryMs = 2_000;

/**
 * Keeps a copy of a ledger in another store in PostgreSQL, where the checks and other readers look
 * for it, for as long as the service runs. Nothing is copied where the ledger is there already.
 */
export async function openLedgerCopy(
  config: Config,
  { logger, onClose }: Service,
): Promise<CopyLedger | undefined> {
  const copied = await openCopyOf(config, () => {
    const copyTo = openDatabase({
      url: config.LEDGER_COPY_URL!,
      applicationName: config.INSTANCE_NAME,
      connectionsMax: 2,
      onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
    });
    onClose('ledger copy', () => copyTo.close());
    return copyTo;
  });
  if (copied === undefined) return undefined;
  onClose(config.LEDGER_STORE, () => copied.close());
  // A slice at a time, so that a shutdown need not wait for a backlog. It rests after the last one:
  // what came meanwhile can wait for a second.
  const pass = async () => {
    const { moreFollows } = await copied.copy({ counting: false, slicesMax: 1 });
    return moreFollows ? 1 : 0;
  };
  const loop = runLoop(pass, { name: 'copy ledger', idleMs: copyEveryMs, logger });
  onClose('copying', () => loop.stop());
  return copied.copy;
}
