/**
 * What a partner's endpoint is to answer next: a status, so many times, instead of taking webhooks.
 */
export type Order = { partner: string; status: number; times: number };

/** How the partners' endpoints behave. */
export type Behaviour = {
  order(order: Order): void;
  /** The status ordered for this partner's next answer, used up by asking; undefined: take it. */
  next(partner: string): number | undefined;
};

/**
 * Endpoints that take everything until they are ordered otherwise; a new order replaces the old.
 */
export function createBehaviour(): Behaviour {
  const orders = new Map<string, Order>();
  return {
    order: (order) => void orders.set(order.partner, { ...order }),
    next(partner) {
      const order = orders.get(partner);
      if (order === undefined || order.times <= 0) return undefined;
      order.times -= 1;
      return order.status;
    },
  };
}
