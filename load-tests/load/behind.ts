import type { System } from '@triplock/demo';
import { stopProcess } from '@triplock/launcher';
import { loadStatements } from '@triplock/postgres';
import { type Check, type Tries, atMost } from './judge.ts';
import type { K6Run } from './k6.ts';
import type { PhaseSender } from './phases.ts';

const sql = loadStatements(import.meta.url, 'behind.sql', ['now', 'hops']);

/** The stages that a payment goes through behind the gateway, in their order. */
export const hops = ['posted', 'published', 'received', 'delivered'] as const;

/**
 * When the payments of a partner were through each hop, in seconds since the workers, which came
 * back, posted the first of all: the median of them, and the last.
 */
export type BehindFigures = {
  partner: string;
  payments: number;
} & Readonly<Record<(typeof hops)[number], { median: number; last: number }>>;

/** Has payments come while no worker runs, starts workers again, and waits until all is done. */
export async function sendBehind(
  system: System,
  {
    terminal,
    drain,
    sendSome,
    rate,
  }: Pick<Tries, 'terminal' | 'drain'> & PhaseSender & { rate: number },
): Promise<{ run: K6Run; behind: BehindFigures[] }> {
  for (const { name } of system.replicas('ledger-worker')) {
    await stopProcess({ home: system.home, name });
  }
  const run = await sendSome({ rate });
  const [clock] = await system.database.query<{ now: string }>(sql.now);
  await system.restore();
  await drain();
  const rows = await system.database.query<Row>(sql.hops, [clock!.now]);
  const behind = rows.map(figuresOf);
  for (const figures of behind) terminal.note(describe(figures));
  return { run, behind };
}

type Row = { partner: string; payments: number } & Record<
  `${(typeof hops)[number]}_${'median' | 'last'}`,
  number
>;

function figuresOf({ partner, payments, ...times }: Row): BehindFigures {
  const of = (hop: (typeof hops)[number]) => {
    return [hop, { median: times[`${hop}_median`], last: times[`${hop}_last`] }];
  };
  return { partner, payments, ...Object.fromEntries(hops.map(of)) } as BehindFigures;
}

function describe({ partner, payments, ...times }: BehindFigures): string {
  const each = hops.map((hop) => {
    return `${hop} ${times[hop].median.toFixed(1)}, the last ${times[hop].last.toFixed(1)}`;
  });
  return `${partner}, ${payments} payments, s after workers posted the first: ${each.join('; ')}`;
}

/** Of the time that the others' backlog takes. */
const share = 0.1;

/**
 * Whether who paid little is through, to the last payment, in a tenth of the time that it takes
 * until all of who paid much is.
 */
export function judgeBehind(behind: readonly BehindFigures[]): Check[] {
  const [little, much] = behind.toSorted((a, b) => a.payments - b.payments);
  if (little === undefined || much === undefined) return [];
  return (['posted', 'delivered'] as const).map((hop) => {
    const all = much[hop].last * 1_000;
    const what = `last of ${little.partner} ${hop}, ms (${much.partner}: ${Math.round(all)})`;
    return atMost(what, little[hop].last * 1_000, all * share);
  });
}
