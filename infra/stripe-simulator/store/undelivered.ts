/**
 * An event that the webhook endpoint has not taken yet. `dueAt` is the simulator's clock, in ms.
 */
export type Delivery = {
  readonly event: string;
  readonly since: number;
  readonly attempts: number;
  readonly dueAt: number;
};

/** The events still to be sent, oldest first. */
export type Undelivered = {
  add(event: string, at: number): void;
  get(event: string): Delivery | undefined;
  update(delivery: Delivery): void;
  remove(event: string): void;
  all(): Iterable<Delivery>;
  size(): number;
  clear(): void;
};

/** Nothing to send. */
export function createUndelivered(): Undelivered {
  const deliveries = new Map<string, Delivery>();
  return {
    add: (event, at) => void deliveries.set(event, { event, since: at, attempts: 0, dueAt: at }),
    get: (event) => deliveries.get(event),
    update: (delivery) => void deliveries.set(delivery.event, delivery),
    remove: (event) => void deliveries.delete(event),
    all: () => deliveries.values(),
    size: () => deliveries.size,
    clear: () => deliveries.clear(),
  };
}
