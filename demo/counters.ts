import { readCounter, type Counter, type ServiceName } from './services.ts';
import type { System } from './system.ts';

/** How much a counter grew since it was watched. */
export type Watched = { grown(): Promise<number> };

/**
 * Watches a counter over all replicas of a service. A replica that was started meanwhile counts
 * from 0; what a dead one had counted is lost with it.
 */
export async function watchCounter(
  system: System,
  service: ServiceName,
  counter: Counter,
): Promise<Watched> {
  const read = async () => {
    const replicas = system.replicas(service);
    const values = await Promise.all(replicas.map((replica) => readCounter(replica, counter)));
    return new Map(replicas.map(({ pid }, index) => [pid, values[index]!]));
  };
  const before = await read();
  return {
    grown: async () => {
      const now = await read();
      return [...now].reduce((sum, [pid, value]) => sum + value - (before.get(pid) ?? 0), 0);
    },
  };
}
