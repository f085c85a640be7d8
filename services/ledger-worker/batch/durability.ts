import type { LedgerPorts } from '@triplock/ledger';
import { PostgresDurabilityError } from '@triplock/postgres';
import type { Logger, Mode, Pass } from '@triplock/runtime';
import type { WorkerMetrics } from '../metrics.ts';

/** Whether a worker may start on a ledger that a failover may set back. */
export type StandbyPolicy = 'refused' | 'accepted';

/** What looks at the ledger's durability. */
export type DurabilityWatch = {
  readDurability: NonNullable<LedgerPorts['readDurability']>;
  metrics: WorkerMetrics;
  logger: Logger;
};

/**
 * Asks at the boot whether the ledger keeps what it acknowledges. The offset of an accepted payment
 * is committed after the ledger's commit: should that one vanish, nothing reads the record again,
 * and the payment is lost although its partner has a 202. When PostgreSQL is away the boot goes on:
 * each connection is looked at once more before its first use.
 *
 * @throws one sentence that tells what to set.
 */
export async function requireDurableLedger(
  { readDurability, logger }: DurabilityWatch,
  { mode, standbys }: { mode: Mode; standbys: StandbyPolicy },
): Promise<void> {
  const durability = await readDurability().catch((error: unknown) => {
    if (error instanceof PostgresDurabilityError) throw error;
    logger.warn({ err: error }, 'the ledger does not answer at startup, will keep trying');
    return undefined;
  });
  const asynchronous = durability?.asynchronousStandbys ?? 0;
  if (asynchronous === 0 || standbys === 'accepted' || mode !== 'production') return;
  throw new Error(
    `PostgreSQL has ${asynchronous} asynchronous standby(s) and waits for none, so a failover may ` +
      'lose accepted payments: set synchronous_standby_names, or ASYNCHRONOUS_STANDBYS=accepted ' +
      'and run `npm run rewind` after each failover',
  );
}

/**
 * Counts the standbys that a commit does not wait for. One that is attached later is an alarm and
 * no reason to stop: what is committed is safe for as long as nobody fails over.
 */
export function durabilityPass({ readDurability, metrics, logger }: DurabilityWatch): Pass {
  let known: number | undefined;
  return async () => {
    const { asynchronousStandbys } = await readDurability();
    metrics.asynchronousStandbys.set(asynchronousStandbys);
    if (asynchronousStandbys > 0 && asynchronousStandbys !== known) {
      const message = 'a failover may lose accepted payments: commits wait for no standby';
      logger.warn({ asynchronousStandbys }, message);
    }
    known = asynchronousStandbys;
    return 0;
  };
}
