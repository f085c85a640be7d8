import { declarations, type ServiceName } from '@triplock/launcher';

/** The services whose CPU a payment takes, in the order in which it meets them. */
export const measuredServices = declarations.map(({ name }) => name as ServiceName);
export type MeasuredService = ServiceName;

/** What a payment passes until its event is published; the others are consumers of that. */
export const pipelineServices: readonly MeasuredService[] = measuredServices.slice(0, 3);

/** What one service used in a run, all its replicas together. */
export type ServiceUse = {
  /** From the first request until all was drained. */
  cpuMicros: number;
  /** What it would have used in the same time with nothing to do. */
  idleMicros: number;
  rssBytesPeak: number;
  rssBytesEnd: number;
};

/** Load on the empty POST. */
export type EmptyPostRun = { load: LoadReport; cpuMicros: number };

/** The servers that the services stand on, and the name of each one's process. */
export const measuredParts = ['redis', 'kafka', 'postgres', 'pubsub'] as const;
export type MeasuredPart = (typeof measuredParts)[number];

/** Load on the system, and all that came of it. */
export type SystemRun = {
  load: LoadReport;
  services: Readonly<Record<MeasuredService, ServiceUse>>;
  /** CPU of the servers in the same time; absent where they are not this machine's processes. */
  partMicros?: Readonly<Record<MeasuredPart, number>>;
  /** The same keys sent again, and what answering them took the gateway. */
  replay: { load: LoadReport; gatewayMicros: number };
  /**
   * From the first request until the last payment was published, delivered, and all was drained.
   */
  publishedMs: number;
  deliveredMs: number;
  drainedMs: number;
};

/** One repetition: the system between two runs of the empty POST. */
export type Repetition = { before: EmptyPostRun; system: SystemRun; after: EmptyPostRun };

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
