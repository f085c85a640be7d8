/**
 * Which limit of a provider a call went beyond: of calls a second or of calls at once, of all calls
 * or of each kind of them.
 */
export type TooMany = { readonly of: 'all' | 'each'; readonly by: 'rate' | 'concurrency' };

/** A call that may be sent now. Who sends it says when it has ended, and what was too much. */
export type Turn = { outcome: 'now'; ended(tooMany?: TooMany): void };

/** The turn is too far away, and nothing was taken. */
export type TooLate = { outcome: 'late'; inMs: number };

/** How fast a provider is asked. */
export type Pace = {
  /**
   * Waits for a turn, in the order in which callers came, unless it looks as if that would take
   * longer than so many milliseconds.
   */
  turn(call: string, withinMs: number): Promise<Turn | TooLate>;
  /** How many may come now and have their turn within so many milliseconds. */
  callersMax(withinMs: number): number;
};

/**
 * As fast as anybody wishes, until the provider turns a call away. From then on limits are kept
 * that are learnt from its answers: lowered when a call is turned away, raised bit by bit while
 * calls wait for them (AIMD). So several workers share the limit of one account without knowing it
 * or each other, and one that the provider changes is found again. A minute after the last call
 * that was turned away a limit is forgotten.
 */
export function openPace(): Pace {
  const all = openLimits();
  const byCall = new Map<string, Limits>();
  const limitsOf = (call: string) => {
    const known = byCall.get(call) ?? openLimits();
    byCall.set(call, known);
    return known;
  };
  return {
    async turn(call, withinMs) {
      const deadlineMs = performance.now() + withinMs;
      const each = limitsOf(call);
      // The narrower one first: who waits there keeps no other kind of call from its turn.
      const later = await each.enter(deadlineMs);
      if (later !== undefined) return later;
      const late = await all.enter(deadlineMs);
      if (late !== undefined) {
        each.leave();
        return late;
      }
      const begunMs = performance.now();
      for (const limits of [each, all]) limits.begin(begunMs);
      const ended = (tooMany?: TooMany) => {
        // Before a place is given to who waits: it may be one too many.
        if (tooMany !== undefined) {
          (tooMany.of === 'all' ? all : each).lower(tooMany.by, begunMs);
        }
        for (const limits of [each, all]) limits.leave();
      };
      return { outcome: 'now', ended };
    },
    callersMax: (withinMs) => all.roomWithin(withinMs),
  };
}

/** The limits of all calls, or of one kind. */
type Limits = ReturnType<typeof openLimits>;

function openLimits() {
  const rate = openRate();
  const room = openRoom();
  return {
    /** Has its place when nothing is returned, and has to leave it. */
    async enter(deadlineMs: number): Promise<TooLate | undefined> {
      const later = await room.enter(deadlineMs);
      if (later !== undefined) return later;
      const late = await rate.enter(deadlineMs);
      if (late !== undefined) room.leave();
      return late;
    },
    begin: rate.begin,
    leave: room.leave,
    /** A call that was begun then was turned away. */
    lower: (by: TooMany['by'], begunMs: number) =>
      by === 'rate' ? rate.lower(begunMs) : room.lower(begunMs),
    roomWithin: (withinMs: number) => Math.min(rate.roomWithin(withinMs), room.free()),
  };
}

const forgottenMs = 60_000;

/** None at first. */
function openLearntLimit() {
  let limit = Infinity;
  let loweredMs = 0;
  let raisedMs = 0;
  return {
    now() {
      if (performance.now() - loweredMs > forgottenMs) limit = Infinity;
      return limit;
    },
    /** A call that was begun before it was lowered the last time says nothing of what it is now. */
    lower(to: number, begunMs: number) {
      if (begunMs < loweredMs) return;
      limit = Math.max(1, to);
      loweredMs = performance.now();
      raisedMs = loweredMs;
    },
    /** Somebody has waited because of it. */
    raise() {
      const nowMs = performance.now();
      const seconds = Math.min(1, (nowMs - raisedMs) / 1_000);
      raisedMs = nowMs;
      limit += Math.max(2, limit * 0.1) * seconds;
    },
  };
}

/** How far calls may catch up, milliseconds, where a timer fired late. */
const catchUpMs = 100;

/** Calls begin one after the other, so many in a second. */
function openRate() {
  const perSecond = openLearntLimit();
  /** When calls began, of the last second, but for those that were turned away. */
  const begun: number[] = [];
  const waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;
  let nextMs = 0;

  const apartMs = () => 1_000 / perSecond.now();
  /** How long whoever comes now waits for a turn, behind those who wait. */
  const waitMs = (nowMs: number) =>
    Math.max(nextMs, nowMs - catchUpMs) - nowMs + waiting.length * apartMs();
  const take = (nowMs: number) => {
    nextMs = Math.max(nextMs, nowMs - catchUpMs) + apartMs();
  };
  const grantDue = () => {
    const nowMs = performance.now();
    timer = undefined;
    while (waiting.length > 0 && nextMs <= nowMs) {
      take(nowMs);
      perSecond.raise();
      waiting.shift()!();
    }
    if (waiting.length > 0) timer = setTimeout(grantDue, nextMs - nowMs);
  };
  const forgetOld = (nowMs: number) => {
    const fresh = begun.findIndex((ms) => ms >= nowMs - 1_000);
    begun.splice(0, fresh === -1 ? begun.length : fresh);
  };
  return {
    async enter(deadlineMs: number): Promise<TooLate | undefined> {
      const nowMs = performance.now();
      const inMs = waitMs(nowMs);
      if (waiting.length === 0 && inMs <= 0) {
        take(nowMs);
        return undefined;
      }
      if (nowMs + inMs > deadlineMs) return { outcome: 'late', inMs };
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push(resolve);
      timer ??= setTimeout(grantDue, nextMs - nowMs);
      await promise;
      return undefined;
    },
    begin(begunMs: number) {
      forgetOld(begunMs);
      begun.push(begunMs);
    },
    lower(begunMs: number) {
      const nowMs = performance.now();
      forgetOld(nowMs);
      const at = begun.lastIndexOf(begunMs);
      if (at !== -1) begun.splice(at, 1);
      // Nothing is known at first but what was taken; later that may be little for other reasons.
      const limit = perSecond.now();
      perSecond.lower(0.9 * (limit === Infinity ? begun.length : limit), begunMs);
      // Nobody catches up with what was too fast.
      nextMs = Math.max(nextMs, nowMs + apartMs());
    },
    roomWithin(withinMs: number) {
      const leftMs = withinMs - waitMs(performance.now());
      return perSecond.now() === Infinity ? Infinity : Math.max(0, Math.floor(leftMs / apartMs()));
    },
  };
}

/** When to come again for room that did not come in time. */
const comeAgainMs = 100;

/** So many calls are under way at once. */
function openRoom() {
  const atOnce = openLearntLimit();
  const waiting = new Set<() => void>();
  let underWay = 0;

  const isFull = () => underWay >= Math.floor(atOnce.now());
  return {
    async enter(deadlineMs: number): Promise<TooLate | undefined> {
      if (waiting.size === 0 && !isFull()) {
        underWay += 1;
        return undefined;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.add(resolve);
      const timer = setTimeout(resolve, deadlineMs - performance.now());
      await promise;
      clearTimeout(timer);
      return waiting.delete(resolve) ? { outcome: 'late', inMs: comeAgainMs } : undefined;
    },
    leave() {
      underWay -= 1;
      for (const enter of waiting) {
        if (isFull()) return;
        waiting.delete(enter);
        atOnce.raise();
        underWay += 1;
        enter();
      }
    },
    lower(begunMs: number) {
      // How many the provider took nobody knows: those that it turned away count among the others.
      atOnce.lower(0.5 * Math.min(atOnce.now(), underWay), begunMs);
    },
    free: () => Math.max(0, Math.floor(atOnce.now()) - underWay - waiting.size),
  };
}
