import { withProviderLimit, type System } from '@triplock/demo';
import { loadStatements } from '@triplock/postgres';
import { type Check, type Tries, atMost } from './judge.ts';
import type { K6Run } from './k6.ts';
import type { PhaseSender } from './phases.ts';

const sql = loadStatements(import.meta.url, 'card-limit.sql', ['now', 'waits']);

/** How long the cards of a partner waited, seconds; `all`: until the last of them was final. */
type Waits = { partner: string; cards: number; median: number; longest: number; all: number };

/** What cards beyond the limit of the provider came to. */
export type CardLimitFigures = {
  /** Calls a second that it takes. */
  perSecond: number;
  /** Calls beyond that. */
  turnedAway: number;
  waits: readonly Waits[];
};

/** Has cards come while the provider takes so many calls a second, until all of them are final. */
export async function sendBeyondLimit(
  system: System,
  {
    terminal,
    drain,
    sendSome,
    rate,
    perSecond,
  }: Pick<Tries, 'terminal' | 'drain'> & PhaseSender & { rate: number; perSecond: number },
): Promise<{ run: K6Run; cardLimit: CardLimitFigures }> {
  const [clock] = await system.database.query<{ now: string }>(sql.now);
  const { result: run, turnedAway } = await withProviderLimit(system, perSecond, async () => {
    const sent = await sendSome({ rate });
    await drain();
    return sent;
  });
  const waits = await system.database.query<Waits>(sql.waits, [clock!.now]);
  for (const each of waits) terminal.note(describe(each));
  terminal.note(`the provider took ${perSecond} calls a second, and turned ${turnedAway} away`);
  return { run, cardLimit: { perSecond, turnedAway, waits } };
}

function describe({ partner, cards, median, longest, all }: Waits): string {
  const waited = `median ${median.toFixed(1)}, longest ${longest.toFixed(1)}`;
  return `${partner}, ${cards} cards, s until one was final: ${waited}; all of them: ${all.toFixed(1)}`;
}

/** Of the cards; each is a call that the limit refused before it was known, or found again. */
const turnedAwayShare = 0.1;
/** Of the time that the limit alone makes of it. */
const slower = 1.25;
/** Of the time that the crowd takes. */
const othersShare = 0.1;

/** Whether cards end at the limit's rate, with few calls in vain, and few wait for a crowd. */
export function judgeCardLimit({ perSecond, turnedAway, waits }: CardLimitFigures): Check[] {
  const [few, crowd] = waits.toSorted((one, other) => one.cards - other.cards);
  if (few === undefined || crowd === undefined) return [];
  const cards = few.cards + crowd.cards;
  const allMs = Math.round(crowd.all * 1_000);
  return [
    atMost('calls that the provider turned away', turnedAway, cards * turnedAwayShare),
    atMost(
      `ms until all cards are final, of ${perSecond}/s`,
      allMs,
      (cards / perSecond) * slower * 1_000,
    ),
    atMost(
      `longest wait of ${few.partner}, ms (all of ${crowd.partner}: ${allMs})`,
      Math.round(few.longest * 1_000),
      allMs * othersShare,
    ),
  ];
}
