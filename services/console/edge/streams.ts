/** Whose stream one is. */
export type Looker = {
  operator: string;
  /** The secret of the session's cookie; a program that shows a token has none. */
  session: string | undefined;
};

/** A place among the streams. */
export type Place = {
  /** Aborts when the stream has to make way for another one. */
  superseded: AbortSignal;
  /** Gives the place back; twice is harmless. */
  leave(): void;
};

/** How many streams there may be. */
export type StreamShares = {
  /** Of one session, which is one browser: more than it opens windows, which it shows one of. */
  perSession: number;
  perOperator: number;
  /** Well below the connections that the server has: whoever comes is answered. */
  inAll: number;
};

export const streamShares: StreamShares = { perSession: 8, perOperator: 32, inAll: 128 };

/** Takes a place, for which another stream may have to make way. */
export type Streams = { take(looker: Looker): Place };

type Stream = Looker & { ending: AbortController };

/**
 * Shares the streams among who looks. A stream holds its connection for as long as somebody looks,
 * so one who opens many would leave no connection to the others: whoever has their share gets a new
 * one for their oldest, and where all have theirs, whoever has most makes way. Nobody is refused,
 * since the newest is the one that somebody looks at.
 */
export function shareStreams({ perSession, perOperator, inAll }: StreamShares): Streams {
  /** Oldest first. */
  const open = new Set<Stream>();

  const endOldest = (of: readonly Stream[]) => {
    open.delete(of[0]!);
    of[0]!.ending.abort();
  };
  const makeWay = ({ operator, session }: Looker) => {
    const all = [...open];
    const byOperator = Map.groupBy(all, (each) => each.operator);
    const own = byOperator.get(operator) ?? [];
    const ofSession = own.filter((each) => session !== undefined && each.session === session);
    if (ofSession.length >= perSession) return endOldest(ofSession);
    if (own.length >= perOperator) return endOldest(own);
    if (all.length < inAll) return;
    endOldest(
      [...byOperator.values()].reduce((most, each) => (each.length > most.length ? each : most)),
    );
  };
  return {
    take(looker) {
      makeWay(looker);
      const stream = { ...looker, ending: new AbortController() };
      open.add(stream);
      return { superseded: stream.ending.signal, leave: () => void open.delete(stream) };
    },
  };
}
