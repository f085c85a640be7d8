import { allParts } from './parts/all-parts.ts';
import type { StopOrder } from './processes/signal-process.ts';
import { services } from './services.ts';

/** Services finish what they hold within 12 s by themselves; then they are made to end. */
export const serviceStop: StopOrder = { signal: 'SIGTERM', withinMs: 15_000 };

/** How a process of that name is asked to end. */
export function stopOrderOf(name: string): StopOrder {
  return allParts.find((part) => part.name === name)?.stop ?? serviceStop;
}

/**
 * Names in the groups in which they are stopped: first what takes work in, so that everything
 * behind it can finish, then the parts, which nothing asks any more.
 */
export function inStopOrder(names: readonly string[]): string[][] {
  const isPart = (name: string) => allParts.some((part) => part.name === name);
  const groups = services.map((service) =>
    names.filter((name) => serviceOf(name) === service.name),
  );
  const unknown = names.filter((name) => !isPart(name) && !groups.flat().includes(name));
  return [...groups, unknown, names.filter(isPart)].filter((group) => group.length > 0);
}

/** `ledger-worker` of `ledger-worker-2`. */
export function serviceOf(name: string): string {
  return name.replace(/-\d+$/, '');
}
