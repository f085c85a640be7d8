import type { DeadLetters } from '@triplock/transport';
import type { DeadRecord } from './decode-records.ts';

/** Far below what dead letters hold in memory, even when a dozen partitions are full of poison. */
const appendsMax = 500;

/**
 * Puts records among the dead letters, with their bytes, headers and the reason. Resolves when all
 * of them are durable there. Repeated, it makes them twice, which a redrive can bear.
 */
export async function setAside(
  deadLetters: Pick<DeadLetters, 'append'>,
  dead: readonly DeadRecord[],
): Promise<void> {
  for (let from = 0; from < dead.length; from += appendsMax) {
    const some = dead.slice(from, from + appendsMax);
    await Promise.all(some.map(({ record, refusal }) => deadLetters.append(record, refusal)));
  }
}
