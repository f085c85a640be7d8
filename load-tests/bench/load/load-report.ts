/** How much to send, whereto, and as whom. */
export type LoadOrder = {
  /** Base URLs; connections are spread over them. */
  targets: readonly string[];
  apiKey: string;
  /** Random, so that every idempotency key is a fresh one. */
  run: string;
  connections: number;
  seconds: number;
  /**
   * Sends that many keys of the run over and over, which were accepted before; absent: fresh ones.
   */
  again?: number;
};

/** What was sent and answered. Times in milliseconds. */
export type LoadReport = {
  accepted: number;
  /** Answers other than 202, by status, and `error` for requests without one. */
  others: Readonly<Record<string, number>>;
  /** From the first request to the last answer. */
  tookMs: number;
  /** From sending a request to the end of its 202. */
  latencyMs: { p50: number; p99: number; max: number };
  /** CPU time of the process that sent it. */
  cpuMicros: number;
};
