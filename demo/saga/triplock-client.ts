import { setTimeout as delay } from 'node:timers/promises';

/** A payment or refund as it is shown. */
export type Shown = {
  id: string;
  status: 'pending' | 'succeeded' | 'failed';
  failure?: { code: string; message: string };
};

/** What a saga needs of the gateway. */
export type TriplockClient = {
  /** Repeats the request under its key until it is accepted. */
  post(path: string, request: { key: string; body: object }): Promise<Shown>;
  /** What is there, once it is final. */
  untilFinal(path: string): Promise<Shown & { status: 'succeeded' | 'failed' }>;
};

// Longer than a deploy or a failover takes. Who gives up later gives up nothing: it is run again.
const patienceMs = 120_000;
// The gateway answers within 3 s, and one that waits within 30 s.
const answerTimeoutMs = 40_000;

/** Where the gateways are, and who asks. */
export type TriplockAccess = {
  gateways: readonly string[];
  apiKey: string;
  /** Ends every request and every wait: they reject with its reason. */
  signal: AbortSignal;
};

/** A client that any partner could have written: it knows URLs and an API key. */
export function openTriplock({ gateways, apiKey, signal }: TriplockAccess): TriplockClient {
  let sent = 0;
  const attempt = (path: string, init: RequestInit) =>
    fetch(new URL(path, gateways[sent++ % gateways.length]), {
      ...init,
      headers: { authorization: `Bearer ${apiKey}`, ...init.headers },
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
    });

  const send = async (path: string, init: RequestInit): Promise<Shown> => {
    const end = performance.now() + patienceMs;
    for (;;) {
      // An answer may also break off in the middle of its body.
      const answer = await attempt(path, init).then(read).catch(unanswered);
      signal.throwIfAborted();
      if (answer.outcome === 'shown') return answer.shown;
      const over = performance.now() + answer.againInMs > end;
      if (answer.outcome === 'refused' || over) throw new Error(`${path}: ${answer.because}`);
      await delay(answer.againInMs, undefined, { signal });
    }
  };

  return {
    post: (path, { key, body }) =>
      send(path, {
        method: 'POST',
        headers: { 'idempotency-key': key, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    untilFinal: async (path) => {
      const end = performance.now() + patienceMs;
      do {
        const shown = await send(path, { headers: { prefer: 'wait=30' } });
        if (shown.status !== 'pending') return { ...shown, status: shown.status };
      } while (performance.now() < end);
      throw new Error(`${path} is still pending`);
    },
  };
}

type Read =
  | { outcome: 'shown'; shown: Shown }
  /** Unknown whether it was accepted, or not yet: the same request is to be sent again. */
  | { outcome: 'again'; because: string; againInMs: number }
  /** Sending the same again would be answered alike. */
  | { outcome: 'refused'; because: string; againInMs: number };

async function read(response: Response): Promise<Read> {
  const text = await response.text();
  if (response.ok) return { outcome: 'shown', shown: JSON.parse(text) as Shown };
  const { status, headers } = response;
  const againInMs = Number(headers.get('retry-after') ?? 1) * 1_000;
  const isPassing = [408, 409, 429].includes(status) || status >= 500;
  return { outcome: isPassing ? 'again' : 'refused', because: `${status} ${text}`, againInMs };
}

function unanswered(error: Error): Read {
  return { outcome: 'again', because: `no answer: ${error.message}`, againInMs: 1_000 };
}
