import { lookup } from 'node:dns/promises';
import { EventEmitter, once } from 'node:events';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { wordsOf } from '@triplock/command';
import { flowIn, newHistory, remember, type Flow, type KnownProcess } from './flow-history.ts';
import type { ConsoleMetrics } from '../metrics.ts';
import { type ProcessFigures, askFigures } from '@triplock/inspect';

/** The look at all processes that everybody who looks shares. */
export type FlowWatch = {
  /** What the last look saw; the first one is waited for. */
  now(): Promise<Flow>;
  /** Each look from now on, every two seconds, until the signal aborts. */
  watch(signal: AbortSignal): AsyncIterable<Flow>;
  close(): Promise<void>;
};

/** A process by its setting: where a name has several addresses, each is a replica of it. */
type NamedProcess = { name: string; url: string };

/** How processes are asked, and where those of a name are. */
export type Asking = {
  ask(url: string): Promise<ProcessFigures>;
  addressesOf(hostname: string): Promise<string[]>;
};

const watchedEveryMs = 2_000;
/** An idle system stays idle: often enough for the charts. */
const unwatchedEveryMs = 15_000;

/**
 * Looks at every process now and then, and more often while somebody watches. One that does not
 * answer is away, and the figures of the others go on. It remembers an hour, in this process alone.
 */
export function watchFlow(
  known: readonly NamedProcess[],
  looks: ConsoleMetrics['looks'],
  { ask, addressesOf }: Asking = { ask: askFigures, addressesOf: lookUpAddresses },
): FlowWatch {
  const closing = new AbortController();
  const replicas = openReplicas(known, addressesOf);
  let history = newHistory(known);
  let watchers = 0;
  let woken = new AbortController();
  const first = Promise.withResolvers<void>();
  let last: Flow | undefined;
  // Whoever waits leaves nothing behind here; a lasting promise keeps all that was raced with it.
  const told = new EventEmitter<Looks>().setMaxListeners(0);

  async function askOne({ name, url }: KnownProcess) {
    const asked = url === undefined ? Promise.reject(new Error(noAddress)) : ask(url);
    const answer = await asked.catch((error: unknown) => wordsOf(error));
    looks.count(typeof answer === 'string' ? 'away' : 'told');
    return { name, url, answer };
  }

  async function look(): Promise<void> {
    const answers = await Promise.all((await replicas()).map(askOne));
    const everyMs = watchers > 0 ? watchedEveryMs : unwatchedEveryMs;
    history = remember(history, answers, Date.now());
    last = { ...flowIn(history), everySeconds: everyMs / 1_000 };
    first.resolve();
    told.emit('look', last);
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      const begun = performance.now();
      woken = new AbortController();
      await look();
      const everyMs = watchers > 0 ? watchedEveryMs : unwatchedEveryMs;
      const restMs = Math.max(0, everyMs - (performance.now() - begun));
      await delay(restMs, undefined, { signal: woken.signal }).catch(() => undefined);
    }
  }

  const ended = run();
  return {
    now: async () => {
      await first.promise;
      return last!;
    },
    watch: async function* (signal) {
      watchers += 1;
      // Whoever comes first does not wait for the end of a long rest.
      if (watchers === 1) woken.abort();
      try {
        while (!closing.signal.aborted) {
          const flow = await nextLook(told, signal);
          if (flow === undefined) return;
          yield flow;
        }
      } finally {
        watchers -= 1;
      }
    },
    close: async () => {
      closing.abort();
      woken.abort();
      told.emit('look', undefined);
      await ended;
    },
  };
}

type Looks = { look: [Flow | undefined] };

/** Nothing when the signal aborts, or when nobody looks any more. */
async function nextLook(told: EventEmitter<Looks>, signal: AbortSignal): Promise<Flow | undefined> {
  const gone = (): [undefined] => [undefined];
  const [flow] = (await once(told, 'look', { signal }).catch(gone)) as [Flow | undefined];
  return flow;
}

const noAddress = 'its name leads to no such replica any more';

/** Where a replica is, or since when it is nowhere; milliseconds. */
type Slot = { address: string } | { leftAt: number };

/** As long as the charts go back: then a replica that never came back was taken away on purpose. */
const forgottenAfterMs = 3_600_000;

/**
 * Gives addresses to the replicas of one name: each keeps its own, a new one takes the place of one
 * that is gone, and a place that nobody took is a replica that is away. An address that is gone is
 * not asked again: somebody else's process may have it.
 */
function placeReplicas(slots: readonly Slot[], addresses: readonly string[], now: number): Slot[] {
  const placed = slots.map((slot): Slot => {
    return 'leftAt' in slot || addresses.includes(slot.address) ? slot : { leftAt: now };
  });
  const isPlaced = (address: string) =>
    placed.some((slot) => 'address' in slot && slot.address === address);
  for (const address of addresses.filter((each) => !isPlaced(each))) {
    const left = placed.findIndex((slot) => 'leftAt' in slot);
    placed[left === -1 ? placed.length : left] = { address };
  }
  return placed.filter((slot) => !('leftAt' in slot) || now - slot.leftAt < forgottenAfterMs);
}

/**
 * Every replica of every process that is known by name. An address is one process, as is an https
 * URL, whose certificate has the name; a name that cannot be looked up now is asked as it is.
 */
function openReplicas(
  known: readonly NamedProcess[],
  addressesOf: Asking['addressesOf'],
): () => Promise<KnownProcess[]> {
  const slots = known.map((): Slot[] => []);
  const replicasOf = async (each: NamedProcess, nth: number): Promise<KnownProcess[]> => {
    const { hostname, protocol, port } = new URL(each.url);
    if (protocol === 'https:' || isIP(hostname.replace(/^\[|\]$/g, '')) > 0) return [each];
    const addresses = await addressesOf(hostname).catch((): string[] => []);
    const placed = placeReplicas(slots[nth]!, addresses, Date.now());
    slots[nth] = placed;
    if (placed.length === 0) return [each];
    return placed.map((slot, index, { length }) => {
      const name = length === 1 ? each.name : `${each.name}-${index + 1}`;
      const url = 'address' in slot ? `http://${slot.address}:${port || 80}` : undefined;
      return { name, url };
    });
  };
  return async () => (await Promise.all(known.map(replicasOf))).flat();
}

/** All of one family: a process that listens on both is still one. */
async function lookUpAddresses(hostname: string): Promise<string[]> {
  const found = await lookup(hostname, { all: true });
  const { family } = found[0]!;
  const mine = found.filter((each) => each.family === family);
  return mine.map(({ address }) => (family === 6 ? `[${address}]` : address)).sort();
}
