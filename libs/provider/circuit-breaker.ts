import { inSpan } from '@triplock/runtime';
import { openPace, type TooMany } from './pace.ts';
import type { Provider, Unknown } from './provider.ts';

/** A call of the provider by its name. */
export type ProviderCall = keyof Provider;

/** When calls stop being sent, for how long, and who is informed. */
export type CircuitBreakerLimits = {
  /** The provider's, for the spans of its calls. */
  name?: string;
  /** As many unknown outcomes in a row open the circuit: calls fail unsent. */
  unknownInARowMax: number;
  /**
   * How long it is open before one call tries, milliseconds; doubled each time, a minute at most.
   */
  openMs: number;
  /** Called when calls stop being sent, and when they are again. */
  onState?: (state: 'open' | 'closed') => void;
  /** Called after each call that was sent. */
  onCall?: (call: ProviderCall, ended: { outcome: CallOutcome; seconds: number }) => void;
};

/**
 * What a call that was sent came to. `turned-away`: the provider had too many, and did nothing;
 * `unknown`: whether it took effect is not known.
 */
export type CallOutcome = 'answered' | 'turned-away' | 'unknown';

/** A provider behind a circuit breaker. */
export type CircuitBreaker = Provider & {
  /**
   * How many callers may begin to ask it now, for those who can wait: none while the circuit is
   * open, one when it is time to try, and as many as have their turn soon when it is closed.
   */
  callersMax(): number;
  /** Sends no more calls, for good; calls under way go on. */
  close(): void;
};

/** However long a provider asks to be left alone, it is asked again after this. */
const openMsMax = 60_000;

/** How long a call waits for its turn, and is sent again for being turned away. */
const turnMs = 5_000;

/** While another call tries nobody knows how long that takes. */
const openMsWhileTrying = 50;

/**
 * Sends a provider nothing while it is in trouble, nor as long as it asked to be left alone
 * (`Retry-After`), and no more than it takes: a call that it turns away is sent again, the same,
 * when its turn comes. A call that was not sent is `unknown` like any other: whoever calls asks
 * again later, and nothing was spent on it.
 */
export function openCircuitBreaker(
  provider: Provider,
  limits: CircuitBreakerLimits,
): CircuitBreaker {
  const circuit = openCircuit(limits);
  const pace = openPace();
  let leftAloneUntil = 0;
  let closed = false;
  const leftAloneMs = () => leftAloneUntil - performance.now();

  const sendOnce = async <Outcome extends { outcome: string }>(
    name: ProviderCall,
    call: () => Promise<Outcome>,
  ): Promise<Outcome | Unknown> => {
    if (closed) return unsent('shutting down', openMsMax);
    const leftMs = leftAloneMs();
    if (leftMs > 0) return unsent('the provider asked to be left alone', leftMs);
    const permit = circuit.permit();
    if (permit.outcome === 'open') {
      return unsent('calls to the provider are suspended because it was failing', permit.leftMs);
    }
    const startedMs = performance.now();
    // Whatever the package sends for one call, a second try after a reset too, is within this span.
    const answer = await inSpan({ name: `${limits.name ?? 'provider'} ${name}` }, () =>
      answerOf(call),
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    const outcome = callOutcomeOf(answer);
    limits.onCall?.(name, { outcome, seconds });
    permit.ended(outcome === 'unknown' ? 'trouble' : 'well');
    leftAloneUntil = Math.max(leftAloneUntil, askedToBeLeftAloneUntil(answer));
    return answer;
  };
  const send = async <Outcome extends { outcome: string }>(
    name: ProviderCall,
    call: () => Promise<Outcome>,
  ): Promise<Outcome | Unknown> => {
    const deadlineMs = performance.now() + turnMs;
    for (;;) {
      // Whoever waits would have a process that ends wait for its turn.
      if (closed) return unsent('shutting down', openMsMax);
      const turn = await pace.turn(name, deadlineMs - performance.now());
      if (turn.outcome === 'late') return unsent('the provider takes no more calls', turn.inMs);
      const answer = await sendOnce(name, call);
      const { tooMany }: Answer = answer;
      turn.ended(tooMany);
      if (tooMany === undefined || leftAloneMs() > 0) return answer;
    }
  };
  const { charge, transactionOf } = provider;
  return {
    ...(charge && { charge: (request) => send('charge', () => charge(request)) }),
    ...(transactionOf && {
      transactionOf: (intentId) => send('transactionOf', () => transactionOf(intentId)),
    }),
    createIntent: (request) => send('createIntent', () => provider.createIntent(request)),
    findIntent: (charge) => send('findIntent', () => provider.findIntent(charge)),
    confirmIntent: (request) => send('confirmIntent', () => provider.confirmIntent(request)),
    captureIntent: (request) => send('captureIntent', () => provider.captureIntent(request)),
    readIntent: (query) => send('readIntent', () => provider.readIntent(query)),
    cancelIntent: (query) => send('cancelIntent', () => provider.cancelIntent(query)),
    refund: (request) => send('refund', () => provider.refund(request)),
    findRefund: (request) => send('findRefund', () => provider.findRefund(request)),
    listRefunds: (intent) => send('listRefunds', () => provider.listRefunds(intent)),
    listDisputes: (query) => send('listDisputes', () => provider.listDisputes(query)),
    callersMax: () =>
      closed || leftAloneMs() > 0 ? 0 : Math.min(circuit.callersMax(), pace.callersMax(turnMs)),
    close: () => (closed = true),
  };
}

async function answerOf<Outcome>(call: () => Promise<Outcome>): Promise<Outcome | Unknown> {
  try {
    return await call();
  } catch (error) {
    return { outcome: 'unknown', error, kept: false, sent: true };
  }
}

/** An answer as far as it says how the provider is. */
type Answer = { outcome: string; tooMany?: TooMany; retryAfterMs?: number };

function callOutcomeOf({ outcome, tooMany }: Answer): CallOutcome {
  if (outcome !== 'unknown') return 'answered';
  return tooMany === undefined ? 'unknown' : 'turned-away';
}

function askedToBeLeftAloneUntil({ retryAfterMs = 0 }: Answer): number {
  return performance.now() + Math.min(retryAfterMs, openMsMax);
}

function unsent(why: string, retryAfterMs: number): Unknown {
  return { outcome: 'unknown', error: new Error(why), kept: false, sent: false, retryAfterMs };
}

/** Whether a call may be sent; the sender reports how it ended. */
type Permit =
  { outcome: 'send'; ended(call: 'well' | 'trouble'): void } | { outcome: 'open'; leftMs: number };

type State =
  | { name: 'closed'; troubles: number }
  | { name: 'open'; times: number; until: number }
  | { name: 'trying'; times: number };

/**
 * After so many troubles in a row nothing is sent for a while, then one call tries, and its end
 * decides between all and the next while. It goes by the monotonic clock: the host's may be set
 * meanwhile. Jitter keeps several workers from trying in step.
 */
function openCircuit({ unknownInARowMax, openMs, onState }: CircuitBreakerLimits) {
  let state: State = { name: 'closed', troubles: 0 };

  const open = (times: number) => {
    const longest = Math.min(openMs * 2 ** times, openMsMax);
    const until = performance.now() + longest * (1 - Math.random() / 4);
    state = { name: 'open', times: times + 1, until };
    onState?.('open');
  };
  /** Counts a call that was begun while all was well; one that ends later is no news. */
  const ended = (call: 'well' | 'trouble') => {
    if (state.name !== 'closed') return;
    state = { name: 'closed', troubles: call === 'trouble' ? state.troubles + 1 : 0 };
    if (state.troubles >= unknownInARowMax) open(0);
  };
  const tries = (times: number): Permit => {
    state = { name: 'trying', times };
    return {
      outcome: 'send',
      ended: (call) => {
        if (call === 'trouble') return open(times);
        state = { name: 'closed', troubles: 0 };
        onState?.('closed');
      },
    };
  };
  return {
    permit: (): Permit => {
      switch (state.name) {
        case 'closed':
          return { outcome: 'send', ended };
        case 'trying':
          return { outcome: 'open', leftMs: openMsWhileTrying };
        case 'open': {
          const leftMs = state.until - performance.now();
          return leftMs > 0 ? { outcome: 'open', leftMs } : tries(state.times);
        }
        default:
          return state satisfies never;
      }
    },
    /** How many calls may be begun now: any number, one that tries, or none. */
    callersMax: () => {
      if (state.name === 'closed') return Infinity;
      return state.name === 'open' && performance.now() >= state.until ? 1 : 0;
    },
  };
}
