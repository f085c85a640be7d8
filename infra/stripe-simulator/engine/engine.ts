import type { Desk } from '../operations/operation.ts';
import type { Faults } from '../faults/faults.ts';
import type { LatencyShape } from '../faults/latency.ts';
import type { Random } from '../faults/random.ts';
import type { Clock } from '../store/clock.ts';
import type { Change, KeptAnswer } from '../store/entry.ts';
import type { Store } from '../store/store.ts';
import type { WebhookSettings } from '../webhooks/webhook-settings.ts';

/** What can be changed while the simulator runs. A restart begins again from the environment. */
export type Dials = {
  latency: LatencyShape;
  searchLagMs: number;
  settleAfterMs: number;
  webhooks: WebhookSettings;
};

/** The simulator without its door: what requests, timers and controls all work with. */
export type Engine = {
  readonly store: Store;
  readonly clock: Clock;
  readonly faults: Faults;
  readonly dials: Dials;
  readonly desk: Desk;
  /** For latency and for the order of webhooks. */
  random: Random;
  /** Called when something may have become due. */
  changed(): void;
};

/** Commits a step: its events go to the webhook if there is one. */
export function commitChange(
  engine: Engine,
  by: string,
  made: { change: Change; keep?: () => KeptAnswer },
): void {
  engine.store.commit({ by, webhooks: engine.dials.webhooks.url !== null, ...made });
  engine.changed();
}
