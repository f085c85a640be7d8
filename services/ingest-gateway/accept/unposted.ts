import { claimTimes, type Claims, type ShownClaim } from '@triplock/claims';
import { runLoop, type Logger, type Service } from '@triplock/runtime';
import type { TopicOffsets } from '@triplock/transport';
import { watchProgress, writeBarrier } from './ledger-progress.ts';

/** What this gateway accepted and the ledger has perhaps not posted yet. */
export type Unposted = {
  /** Call it once the record is in the topic. */
  add(accepted: ShownClaim): void;
  /** Renews what reads show of it, as far as the ledger is behind. */
  renew(): Promise<void>;
};

type Stores = {
  claims: Pick<Claims, 'renewShown'>;
  offsets: Pick<TopicOffsets, 'end' | 'committed'>;
  logger: Logger;
};

/** Together some megabytes. Of more the oldest are forgotten: reads of them wait for the ledger. */
const rememberedMax = 100_000;

/** What was accepted between two looks, and the end of the topic after it. */
type Span = { claims: readonly ShownClaim[]; barrier: string | undefined };

/**
 * Remembers what was accepted until the ledger's workers have passed its records, so that what a
 * read shows of it can be kept for as long as that takes, and not for a day.
 *
 * It is in memory: what a gateway accepted that died is renewed no longer. Reads of it are then
 * told to ask again until the ledger has it, and they are never told that it does not exist.
 */
export function watchUnposted({ claims, offsets, logger }: Stores): Unposted {
  const progress = watchProgress(offsets);
  let latest: ShownClaim[] = [];
  let spans: Span[] = [];

  const isPosted = async ({ barrier }: Span) =>
    barrier !== undefined && (await progress.hasPassed(barrier));
  const stillBehind = async (): Promise<Span[]> => {
    try {
      const posted = await Promise.all(spans.map(isPosted));
      return spans.filter((_, at) => !posted[at]);
    } catch (err) {
      logger.warn({ err }, 'how far the ledger is is not known: what reads show is kept');
      return spans;
    }
  };
  /** The end is read after its records were appended, so it is behind them. */
  const closeSpan = async () => {
    const closed = latest;
    latest = [];
    if (closed.length > 0) spans.push({ claims: closed, barrier: undefined });
    if (spans.every(({ barrier }) => barrier !== undefined)) return;
    const end = await offsets.end().catch((err: unknown) => {
      logger.warn({ err }, 'the end of the topic is not known: what reads show is kept');
    });
    if (!end) return;
    const barrier = writeBarrier(end);
    spans = spans.map((span) => ({ ...span, barrier: span.barrier ?? barrier }));
  };
  return {
    add({ txnId, partnerId }) {
      if (latest.length < rememberedMax) latest.push({ txnId, partnerId });
    },
    async renew() {
      spans = await stillBehind();
      const behind = spans.flatMap((span) => span.claims);
      await closeSpan();
      spans = newest(spans);
      if (behind.length > 0) await claims.renewShown(behind);
    },
  };
}

/** The newest spans that are few enough to be remembered. */
function newest(spans: readonly Span[]): Span[] {
  let left = rememberedMax;
  const kept = spans.toReversed().filter((span) => (left -= span.claims.length) >= 0);
  return kept.toReversed();
}

// A span is closed at one look and renewed at the next, so its oldest claim is two looks old then.
const looksInLife = 3;

/** The same, renewed for as long as the service runs. */
export function renewUnposted(
  stores: Omit<Stores, 'logger'>,
  { logger, onClose }: Pick<Service, 'logger' | 'onClose'>,
): Unposted {
  const unposted = watchUnposted({ ...stores, logger });
  const pass = async () => {
    await unposted.renew();
    return 0;
  };
  const idleMs = claimTimes.shownMs / looksInLife;
  const loop = runLoop(pass, { name: 'renew what reads show', idleMs, logger });
  onClose('renewing what reads show', () => loop.stop());
  return unposted;
}
