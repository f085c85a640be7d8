import { createAlarm } from './engine/alarm.ts';
import type { Dials, Engine } from './engine/engine.ts';
import { createSettling } from './engine/settle-due.ts';
import { createFaults } from './faults/faults.ts';
import { createRandom } from './faults/random.ts';
import { buildServer } from './server/serve-simulator.ts';
import { createClock } from './store/clock.ts';
import { openStore } from './store/store.ts';
import { createDelivering } from './webhooks/deliver-events.ts';

/** How a simulator is started. */
export type SimulatorOptions = {
  /** The file of its memory; made when it is not there. */
  readonly journal: string;
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly seed: number;
  readonly dials: Dials;
  /** The journal cannot be written, or work by time failed: it must not go on. */
  readonly onBroken: (error: unknown) => void;
};

/** A running simulator. `url` has no slash at its end. */
export type Simulator = { readonly url: string; close(): Promise<void> };

/** Starts the Stripe simulator in this process, on the journal that is there. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const clock = createClock();
  const store = await openStore(options.journal, clock, options.onBroken);
  const dials = { ...options.dials };
  let url = '';
  const engine: Engine = {
    ...{ store, clock, dials },
    faults: createFaults(options.seed),
    random: createRandom(options.seed),
    desk: {
      account: store.account,
      now: () => clock.now(),
      publicUrl: () => url,
      settleAfterMs: () => dials.settleAfterMs,
      searchLagMs: () => dials.searchLagMs,
    },
    changed: () => alarms.forEach((alarm) => alarm.look()),
  };
  const alarms = [
    createAlarm(createSettling(engine), options.onBroken),
    createAlarm(createDelivering(engine), options.onBroken),
  ];
  const app = await buildServer(engine, options.journal);
  url = await app.listen({ host: options.host, port: options.port });
  engine.changed();
  return {
    url,
    async close() {
      // Whoever is held back goes on, so that nobody is waited for.
      engine.faults.clear();
      await app.close();
      await Promise.all(alarms.map((alarm) => alarm.close()));
      await store.close();
    },
  };
}
