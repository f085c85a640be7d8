/** When the other side is in trouble, and how long it is then left alone. */
export type CircuitLimits = {
  troublesInARowMax: number;
  /**
   * The first rest, milliseconds; doubled each time, with jitter so that workers do not try in
   * step.
   */
  restMs: number;
  restMsMax: number;
  /** Told when calls stop being sent, and when they are again. */
  onCircuit?: (state: 'open' | 'closed') => void;
};

/** Whether a call may be sent; the sender reports how it ended. */
export type Leave =
  { outcome: 'send'; ended(call: 'well' | 'trouble'): void } | { outcome: 'rest'; restMs: number };

/**
 * Leaves the other side alone while it is in trouble: after so many troubles in a row nothing is
 * sent for a rest, then one call tries, and its end decides between all and the next rest.
 */
export type Circuit = {
  leave(): Leave;
  /** How many calls may be begun now: any number, one that tries, or none. */
  callersMax(): number;
};

/** While another call tries nobody knows how long that takes. */
const restMsWhileTrying = 50;

type State =
  | { name: 'closed'; troubles: number }
  | { name: 'open'; rests: number; until: number }
  | { name: 'trying'; rests: number };

/**
 * A closed circuit. It goes by the monotonic clock: the host's may be set meanwhile.
 */
export function openCircuit(limits: CircuitLimits): Circuit {
  const { troublesInARowMax, restMs, restMsMax, onCircuit } = limits;
  let state: State = { name: 'closed', troubles: 0 };

  const rest = (rests: number) => {
    const longest = Math.min(restMs * 2 ** rests, restMsMax);
    const until = performance.now() + longest * (1 - Math.random() / 4);
    state = { name: 'open', rests: rests + 1, until };
    onCircuit?.('open');
  };
  /** Counts a call that was begun while all was well; one that ends later says nothing new. */
  const ended = (call: 'well' | 'trouble') => {
    if (state.name !== 'closed') return;
    state = { name: 'closed', troubles: call === 'trouble' ? state.troubles + 1 : 0 };
    if (state.troubles >= troublesInARowMax) rest(0);
  };
  const tries = (rests: number): Leave => {
    state = { name: 'trying', rests };
    return {
      outcome: 'send',
      ended: (call) => {
        if (call === 'trouble') return rest(rests);
        state = { name: 'closed', troubles: 0 };
        onCircuit?.('closed');
      },
    };
  };
  return {
    leave: () => {
      switch (state.name) {
        case 'closed':
          return { outcome: 'send', ended };
        case 'trying':
          return { outcome: 'rest', restMs: restMsWhileTrying };
        case 'open': {
          const leftMs = state.until - performance.now();
          return leftMs > 0 ? { outcome: 'rest', restMs: leftMs } : tries(state.rests);
        }
        default:
          return state satisfies never;
      }
    },
    callersMax: () => {
      if (state.name === 'closed') return Infinity;
      return state.name === 'open' && performance.now() >= state.until ? 1 : 0;
    },
  };
}
