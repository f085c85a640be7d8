import { allParts } from './parts/start-parts.ts';
import { type StopOrder, stopProcess } from './processes/stop.ts';
import { agent, servicesHere } from './service-table.ts';
import { serviceOf } from './services.ts';
import { forget, type Session } from './session.ts';

/** Services finish what they hold within 12 s by themselves; then they are made to end. */
const serviceStop: StopOrder = { signal: 'SIGTERM', withinMs: 15_000 };

/** A scenario that is broken off puts right what it broke, or drops its own system. */
const agentStop: StopOrder = { signal: 'SIGTERM', withinMs: 60_000 };

/** How a process of that name is asked to end. */
export function stopOrderOf(name: string): StopOrder {
  if (name === agent.name) return agentStop;
  return allParts.find((part) => part.name === name)?.stop ?? serviceStop;
}

/**
 * Names in the groups in which they are stopped: first what takes work in, so that everything
 * behind it can finish, then the parts, which nothing asks any more.
 */
export function inStopOrder(names: readonly string[]): string[][] {
  const isPart = (name: string) => allParts.some((part) => part.name === name);
  const groups = servicesHere.map((service) =>
    names.filter((name) => serviceOf(name) === service.name),
  );
  const unknown = names.filter((name) => !isPart(name) && !groups.flat().includes(name));
  return [...groups, unknown, names.filter(isPart)].filter((group) => group.length > 0);
}

/** Stops the named processes in stop order, those of one group at the same time. */
export async function stopByName(session: Session, names: readonly string[]): Promise<void> {
  for (const group of inStopOrder([...new Set(names)])) {
    await Promise.all(group.map((name) => stopOne(session, name)));
  }
}

async function stopOne(session: Session, name: string): Promise<void> {
  const record = session.state.processes[name];
  if (record === undefined) return;
  const order = stopOrderOf(name);
  const { outcome } = await stopProcess(record, order);
  const killed = `did not end within ${order.withinMs / 1000} s and was killed`;
  session.report(`${name}: ${outcome === 'killed' ? killed : outcome}`);
  forget(session, name);
}
