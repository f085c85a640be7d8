import { askPubSub, LauncherError, pubsubName } from '@triplock/launcher';
import type { System } from './system.ts';

/**
 * A message to publish by hand. Without an ordering key it comes in any order.
 */
export type Message = { data: string; attributes: Record<string, string>; orderingKey?: string };

/** Publishes one message to the topic of events; resolves once the broker has it. */
export function publish(system: System, message: Message): Promise<void> {
  const { data, attributes, orderingKey } = message;
  const messages = [{ data: Buffer.from(data).toString('base64'), attributes, orderingKey }];
  return ask(system, {
    method: 'POST',
    name: `topics/${system.names.eventsTopic}:publish`,
    body: { messages },
  });
}

/** A snapshot, by name, of what a subscription has not acknowledged. */
export type SnapshotOf = { subscription: string; snapshot: string };

/**
 * Keeps what a subscription has not acknowledged yet, and all that is published from now on, to be
 * sought back to. It must be dropped.
 */
export function takeSnapshot(
  system: System,
  { subscription, snapshot }: SnapshotOf,
): Promise<void> {
  const body = { subscription: pubsubName(`subscriptions/${subscription}`) };
  return ask(system, { method: 'PUT', name: `snapshots/${snapshot}`, body });
}

/** Has everything that the snapshot kept delivered again. */
export function seekBack(system: System, { subscription, snapshot }: SnapshotOf): Promise<void> {
  const body = { snapshot: pubsubName(`snapshots/${snapshot}`) };
  return ask(system, { method: 'POST', name: `subscriptions/${subscription}:seek`, body });
}

/** Deletes a snapshot. */
export function dropSnapshot(system: System, snapshot: string): Promise<void> {
  return ask(system, { method: 'DELETE', name: `snapshots/${snapshot}` });
}

async function ask({ endpoints }: System, request: Parameters<typeof askPubSub>[1]): Promise<void> {
  const { ok, status, text } = await askPubSub(endpoints.pubsub, request);
  if (!ok) throw new LauncherError(`pubsub: ${request.method} ${request.name}: ${status} ${text}`);
}
