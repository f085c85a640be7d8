/** In which order due events are sent: as they come, or one after the other in a chosen order. */
export const webhookOrders = ['any', 'created', 'reversed', 'shuffled'] as const;

/** Where events go, and how badly. */
export type WebhookSettings = {
  /** Null: events are made and can be listed, and are sent nowhere. */
  readonly url: string | null;
  /** `whsec_…`, as the receiver passes it to `constructEvent`. */
  readonly secret: string;
  readonly order: (typeof webhookOrders)[number];
  /** How often each event is sent, also when it was taken the first time. */
  readonly copies: number;
  /** Events wait until it is unpaused. */
  readonly paused: boolean;
};
