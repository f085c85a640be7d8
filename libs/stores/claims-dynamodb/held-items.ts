import type { ShownClaim } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf } from '@triplock/payments';
import { leavesAt } from './claims-table.ts';
import type { Item, Table } from './dynamo-client.ts';

/** Whose claim is counted, how many there may be in its bucket, and how long one lives. */
export type Holder = { claim: ShownClaim; namespace: string; claimsMax: number; lifeMs: number };

/** Room that was taken: by the hour in which it counts. */
export type Held = { outcome: 'held'; hour: number };

const hourMs = 3_600_000;

/**
 * Counts a claim that is about to begin, of its partner in its bucket: one write, which DynamoDB
 * refuses once there are too many. The item has, for each hour, how many began in it (`h<hour>`);
 * they leave the count together, once the last of them may be over.
 *
 * The write stands before the claim's own, since a transaction over both would refuse claims that
 * merely meet in a bucket. A crash between them, or a count whose answer was lost and that was sent
 * again, leaves one counted that is not there, for a day: more is held never.
 *
 * What refuses is a new hour or the partner's first claim, and whoever was quicker with either.
 */
export async function hold(
  table: Table,
  holder: Holder,
): Promise<Held | { outcome: 'over-limit'; retryAfterMs: number }> {
  const id = heldOf(holder);
  let hour = Math.floor(table.now().latest / hourMs);
  for (;;) {
    const counted = await table.update(id, {
      change: `SET ${oneMore(hour, '+')}`,
      condition: '#hour = :hour AND #claims < :max',
      values: { ':hour': hour, ':max': holder.claimsMax, ':one': 1 },
    });
    if (counted.outcome === 'written') return { outcome: 'held', hour };
    const known = await table.get(id);
    // The clock of another machine is ahead.
    hour = Math.max(hour, Number(known?.['hour'] ?? 0));
    if (known !== undefined && known['hour'] === hour && full(known, holder)) {
      const oldest = Math.min(...hoursOf(known));
      return {
        outcome: 'over-limit',
        retryAfterMs: (oldest + 1) * hourMs + holder.lifeMs - table.now().earliest,
      };
    }
    if (known?.['hour'] !== hour) await beginHour(table, holder, { known, hour });
  }
}

/** Takes back what was counted for a claim that another request made. */
export async function giveBack(table: Table, holder: Holder, { hour }: Held): Promise<void> {
  await table.update(heldOf(holder), {
    change: `SET ${oneMore(hour, '-')}`,
    condition: `attribute_exists(#h${hour})`,
    values: { ':one': 1 },
  });
}

function oneMore(hour: number, sign: '+' | '-'): string {
  // The version is another after every change, so that who begins an hour misses none.
  const changes = [
    'version = #version +',
    `claims = #claims ${sign}`,
    `h${hour} = #h${hour} ${sign}`,
  ];
  return changes.map((change) => `#${change} :one`).join(', ');
}

/** Goes on to another hour, without those that are over by then; who is late changes nothing. */
async function beginHour(
  table: Table,
  { claim, namespace, lifeMs }: Pick<Holder, 'claim' | 'namespace' | 'lifeMs'>,
  { known, hour }: { known: Item | undefined; hour: number },
): Promise<void> {
  const { earliest } = table.now();
  const living = hoursOf(known ?? {}).filter((each) => (each + 1) * hourMs + lifeMs > earliest);
  const counts = living.map((each) => [`h${each}`, Number(known![`h${each}`])] as const);
  const item = {
    id: heldOf({ claim, namespace }),
    version: Number(known?.['version'] ?? 0) + 1,
    hour,
    claims: counts.reduce((sum, [, count]) => sum + count, 0),
    leaves_at: leavesAt((hour + 1) * hourMs + lifeMs),
    ...Object.fromEntries(counts),
    [`h${hour}`]: 0,
  };
  await table.put(
    item,
    known === undefined
      ? { condition: 'attribute_not_exists(#id)', values: {} }
      : { condition: '#version = :version', values: { ':version': known['version']! } },
  );
}

function full(item: Item, { claimsMax }: Holder): boolean {
  return Number(item['claims']) >= claimsMax;
}

function hoursOf(item: Item): number[] {
  return Object.keys(item).flatMap((name) => (/^h\d+$/.test(name) ? [Number(name.slice(1))] : []));
}

function heldOf({ claim, namespace }: Pick<Holder, 'claim' | 'namespace'>): string {
  return `${namespace}#held#${claim.partnerId}#${bucketOf(claim.txnId, bucketCount)}`;
}
