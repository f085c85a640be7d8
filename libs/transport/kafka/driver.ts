import type { Logger } from '@triplock/runtime';

/** The client libraries that there is a driver for. */
export type KafkaDriverName = 'kafkajs' | 'platformatic';

/** Which brokers to talk to, by which client library, and as whom. */
export type BrokerConnection = {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  clientId: string;
  logger: Logger;
  /** The library that speaks Kafka's protocol; kafkajs by default. */
  driver?: KafkaDriverName;
  /** Whom a broker with an authorizer takes this for; nobody logs in by default. */
  login?: KafkaLogin | undefined;
  /** `on`: by TLS, to who has a certificate for the name that is dialled. */
  tls?: 'on' | 'off';
  /** How long brokers may take to answer a question (`openInquiry`); 2 s by default. */
  answerWithinMs?: number;
  /** Called with the time for which a broker holds this client back, because of a quota. */
  onThrottled?: (ms: number) => void;
  /** Where a broker is dialled, if not where it says; tests put a bad network there. */
  dial?: (broker: BrokerAddress) => BrokerAddress;
};

export type BrokerAddress = { host: string; port: number };

/** A user of the brokers, and how it proves to be that (SASL). */
export type KafkaLogin = {
  mechanism: 'scram-sha-512' | 'plain';
  username: string;
  password: string;
};

/**
 * A library that speaks Kafka's protocol, as much of it as is used here. What must hold whatever
 * the library is (one batch under way, a producer that failed once sends nothing more, offsets
 * committed after the work, a member started again) is built on it; what the library must do for
 * that stands with each function. The tests of kafka/*.test.ts run on every driver.
 */
export type KafkaDriver = {
  openProducer(options: RawProducerOptions): RawProducer;
  /** Connects in the background. `admin` rejects when that fails; after `destroy` all is over. */
  connectAdmin(
    connection: BrokerConnection,
    limitMs: number,
  ): { admin: Promise<BrokerAdmin>; destroy(): void };
  /**
   * Joins the group and consumes. Rejects when that fails or `calledOff` rejects; nothing is left
   * then. It commits nothing by itself, and starts a group without offsets at the log's start.
   */
  startMember(
    membership: Membership,
    attach: AttachHooks,
    calledOff: Promise<never>,
  ): Promise<GroupMember>;
  /** Reads stretches of a topic to their ends; commits nothing, and leaves no group behind. */
  readStretches(options: BrokerConnection & { topic: string }, wanted: Wanted): Promise<void>;
  /**
   * Whether it can write a header whose value is null, as the protocol allows (KIP-82) and other
   * clients do. Reading one it always can.
   */
  writesNullHeaders: boolean;
  /** What an error of this library says; `undefined` for any other error. */
  judge(error: unknown): BrokerRefusal | undefined;
};

/**
 * `later`: a broker cannot answer yet, asked again it may. `login`: it does not know this user with
 * this password. `right`: this user may not do that. `taken`: the group went on without this
 * member. `other`: any other error of the library's own.
 */
export type BrokerRefusal = 'later' | 'login' | 'right' | 'taken' | 'other';

/** A record to append; without a partition it gets that of its key. */
export type OutgoingRecord = {
  key?: Buffer | string | null;
  value: Buffer | string | null;
  partition?: number;
  headers?: OutgoingHeaders;
};

/** Headers by name; one that is there several times is a list. Null: see `writesNullHeaders`. */
export type OutgoingHeaders = Record<string, OutgoingHeader | OutgoingHeader[] | undefined>;
export type OutgoingHeader = Buffer | string | null;

/** What a producer appends to, and how. */
export type RawProducerOptions = BrokerConnection & {
  topic: string;
  /** Bounds one batch with all the tries that the library makes. */
  sendLimitMs: number;
  /** Which of so many partitions a record goes to. From then on it says so itself. */
  pin(record: OutgoingRecord, partitions: number): number;
};

/** An idempotent producer of the library's, used by one caller, one batch at a time. */
export type RawProducer = {
  connect(): Promise<void>;
  /**
   * Appends with acks=all and returns the partitions that were acknowledged. Tries repeat the same
   * sequence numbers and partitions.
   */
  send(records: OutgoingRecord[]): Promise<Iterable<number>>;
  disconnect(): Promise<void>;
  /** Ends all at once: no socket is left, and no other is opened. */
  destroy(): void;
};

/** What one partition holds: from its first record up to, and without, its end. */
export type Bounds = { start: bigint; end: bigint };

/** Offsets by partition: the next offset after the last record, or after the last committed one. */
export type Offsets = ReadonlyMap<number, bigint>;

/** Questions to the brokers, and the two orders that operators give. */
export type BrokerAdmin = {
  bounds(topic: string): Promise<ReadonlyMap<number, Bounds>>;
  /** The offset of the first record of this time or later, by partition; the end without one. */
  since(topic: string, time: Date): Promise<Offsets>;
  /** The group's next offset, by partition; negative where it has none. */
  committed(group: { groupId: string; topic: string }): Promise<Offsets>;
  /** Moves the offsets of a group; refused while it has members. */
  moveGroup(group: { groupId: string; topic: string }, offsets: Offsets): Promise<void>;
  /** Client ids of the group's members. */
  members(groupId: string): Promise<string[]>;
  /** Brokers with a copy of each partition. Rejects for a topic that the brokers do not know. */
  replicas(topic: string): Promise<number[]>;
  /** A topic's settings by their Kafka names. */
  config(topic: string): Promise<ReadonlyMap<string, string>>;
};

/**
 * Headers by name, whatever the name: all of them are own properties. One that is there several
 * times is a list. A value may be null, which is not the same as empty.
 */
export type ReceivedHeaders = Readonly<
  Record<string, Buffer | null | readonly (Buffer | null)[] | undefined>
>;

/** A record as it came from the topic, bytes untouched. */
export type ReceivedRecord = {
  topic: string;
  partition: number;
  offset: bigint;
  key: Buffer | null;
  value: Buffer | null;
  headers: ReceivedHeaders;
  timestamp: string;
};

/**
 * Offsets of one partition, from `from` to before `next`, that hold no record: the marker (control
 * record) that ends a transaction, and what an aborted one had written.
 */
export type SkippedOffsets = { partition: number; from: bigint; next: bigint; end: bigint };

/** `isStale`: whether what it is the end of belongs to somebody else by now. */
export type PartitionOffset = { partition: number; offset: bigint; isStale?: () => boolean };

/** How a member takes part in its group. */
export type Membership = BrokerConnection & {
  groupId: string;
  topic: string;
  /** A member that is silent for this long is dead. */
  sessionTimeoutMs: number;
  /** Longest that it is silent while all is well. */
  heartbeatMs: number;
  /** See `MemberOptions`. */
  gatherMs?: number;
};

/**
 * How much one fetch of a member brings, at most: of all partitions, and of each. Under a quota
 * (KIP-219) a broker reads nothing more of a connection until what it sent is paid for, and that of
 * kafkajs carries heartbeats and commits too: of ten times as much, which it takes by default, a
 * member would be thrown out of its group before it could commit any, and fetch the same again for
 * ever. So the quota has to pay for one fetch within a session of 6 s. It is enough for 1 000 to
 * 2 000 payments, which share a statement.
 */
export const fetchBytes = { max: 1024 * 1024, ofPartitionMax: 512 * 1024 } as const;

/** One membership, from joining the group to its end. */
export type GroupMember = {
  /** Rejects when this member consumes no more; another is then needed. */
  ended: Promise<never>;
  /** Finishes and commits what is under way, then leaves the group. Bounded. */
  leave(): Promise<void>;
};

/** Makes what the driver calls of how it commits. */
export type AttachHooks = (commit: CommitOffsets) => MemberHooks;

/**
 * Commits offsets together, all but those of partitions that were taken away meanwhile: it resolves
 * with an error for each of these. Rejects when nothing was committed, as far as is known.
 */
export type CommitOffsets = (
  offsets: readonly PartitionOffset[],
) => Promise<ReadonlyMap<number, Error>>;

/** What a driver calls for its member. */
export type MemberHooks = {
  /** Rejects when the member has to join again. */
  eachBatch(batch: FetchedBatch): Promise<void>;
  /** Nothing of what was fetched is a record. It tries until it is done or overtaken. */
  skip(skipped: SkippedOffsets): void;
  /** The group was joined, also again: what was not committed is fetched once more. */
  joined(memberId: string, assigned: readonly number[]): void;
  /** No batch is taken from here on, and what failed is not tried again. */
  stop(): void;
};

/** What one fetch brought of one partition: records in order, at least one. */
export type FetchedBatch = {
  partition: number;
  records: ReceivedRecord[];
  /** The offset that was asked for. */
  from: bigint;
  /** The offset after these records, and after what follows them in the log and is no record. */
  next: bigint;
  /** The offset after all that the partition held when these were fetched. */
  end: bigint;
  /** @throws an error that is judged `taken` when the partition was taken away. */
  heartbeat(): Promise<void>;
  isStale(): boolean;
  /** The next fetch begins at this offset. Without a call it begins where this one did. */
  goOnFrom(offset: bigint): void;
  /** Fetches nothing of the partition until what it returns is called. */
  pause(): () => void;
};

/** A stretch of one partition: from the first offset up to, and without, the second. */
export type Stretch = { partition: number; from: bigint; to: bigint };

/**
 * Stretches to read, none of them empty, who gets the records of them, and the time for all. What
 * is taken shares its memory with the whole answer that it came in: who keeps little of it copies
 * that.
 */
export type Wanted = {
  stretches: readonly Stretch[];
  withinMs: number;
  take(records: readonly ReceivedRecord[]): void;
  /** Whether what was taken of a partition will do: the rest of its stretch is not read then. */
  isEnough?(partition: number): boolean;
};
