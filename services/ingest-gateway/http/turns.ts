import { Problem } from '@triplock/contracts';
import { DoneTooOftenError } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { databaseErrorKind } from '@triplock/postgres';
import {
  DeadlineError,
  openSharedReads,
  openSlots,
  withDeadline,
  type Slots,
} from '@triplock/runtime';
import type { FastifyRequest } from 'fastify';
import type { Gateway, Turn, Turns } from '../gateway.ts';
import { doneTooOften, tooManyAtOnce, unknownYet } from './problems.ts';

/** How much is done at once, and may wait for it. */
export type TurnLimits = {
  /** Of all partners: fewer than the database has connections, so that keys can be looked up. */
  atOnce: number;
  /** Of one: what it gets is rendered in this process too, which serves others in between. */
  perPartner: number;
  /** Of one: beyond it one is refused at once, not after it waited for nothing. */
  waitingMax: number;
};

/** Beside a pool of eight connections. */
const usualLimits: TurnLimits = { atOnce: 6, perPartner: 3, waitingMax: 200 };

/**
 * Opens turns. Those of one partner come in their order, and one that is free goes to whoever has
 * had none for longest. A partner that asks for one thing over and over has it read once at a time,
 * however often it asks.
 */
export function openTurns(limits: TurnLimits = usualLimits): Turns {
  const { atOnce, perPartner, waitingMax } = limits;
  const all = openSlots(atOnce);
  const partners = new Map<PartnerId, { own: Slots; asked: number }>();

  /** Resolves to how to give it back. */
  const wait = async (partnerId: PartnerId): Promise<() => void> => {
    const partner = partners.get(partnerId) ?? { own: openSlots(perPartner), asked: 0 };
    if (partner.asked >= perPartner + waitingMax) throw tooManyAtOnce();
    partners.set(partnerId, partner);
    partner.asked += 1;
    await partner.own.take();
    await all.take(partnerId);
    return () => {
      all.release();
      partner.own.release();
      partner.asked -= 1;
      if (partner.asked === 0) partners.delete(partnerId);
    };
  };
  const takeOne = async <Result>(
    { partnerId, what, withinMs }: Turn,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    const end = performance.now() + withinMs;
    const leftMs = () => Math.max(0, end - performance.now());
    const coming = wait(partnerId);
    const giveBack = await withDeadline(coming, { ms: withinMs, what }).catch((error: unknown) => {
      if (!(error instanceof DeadlineError)) throw error;
      void coming.then((late) => late());
      throw unknownYet();
    });
    // Until it is done, also when nobody waits for it any more: it has its connection until then.
    const working = work();
    working.then(giveBack, giveBack);
    return withDeadline(working, { ms: leftMs(), what });
  };
  const share = openSharedReads<string, unknown>();
  return {
    take<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result> {
      const { partnerId, what, withinMs: ms, same } = turn;
      if (same === undefined) return takeOne(turn, work);
      const shared = share(`${partnerId} ${same}`, () => takeOne(turn, work)) as Promise<Result>;
      // Of whoever shares it each waits no longer than its own time.
      return withDeadline(shared, { ms, what });
    },
  };
}

/**
 * What a store answers to a partner's request, in its turn and in time. What a GET asks for is said
 * by its partner and its URL alone, so equal ones share an answer.
 *
 * @throws Problem `unavailable` when it is away or late; what was asked for may have happened;
 * `rate_limited` when the partner did it too often within a day. And as {@link Turns.take} does.
 */
export async function askStore<Result>(
  { logger, turns, budgetMs: withinMs }: Gateway,
  { request, what }: { request: FastifyRequest; what: string },
  work: () => Promise<Result>,
): Promise<Result> {
  const { partnerId, id: requestId, method, url } = request;
  const turn = { partnerId, what, withinMs, ...(method === 'GET' && { same: url }) };
  try {
    return await turns.take(turn, work);
  } catch (error) {
    if (error instanceof DoneTooOftenError) throw doneTooOften(error.retryAfterSeconds);
    if (error instanceof Problem || databaseErrorKind(error) !== 'transient') throw error;
    logger.warn({ err: error, what, partnerId, requestId }, 'a store did not answer');
    throw unknownYet();
  }
}
