import {
  ConnectionPool,
  Consumer,
  FetchIsolationLevels,
  IS_CONTROL,
  IS_TRANSACTIONAL,
  type KafkaRecord,
  type RecordsBatch,
} from '@platformatic/kafka';
import {
  fetchBytes,
  type BrokerConnection,
  type ReceivedHeaders,
  type ReceivedRecord,
  type Wanted,
} from '../driver.ts';
import {
  clientOptions,
  destroyClient,
  destroyPool,
  isAnswer,
  prepare,
  type ClientLimits,
} from './client.ts';

/** What the library does not export by name. */
type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>;
type FetchResponsePartition = FetchResponse['responses'][number]['partitions'][number];

/** What one partition answered: records and offsets that hold none, or that `from` is gone. */
export type Fetched =
  | {
      outcome: 'read';
      partition: number;
      records: ReceivedRecord[];
      from: bigint;
      next: bigint;
      end: bigint;
    }
  | { outcome: 'gone'; partition: number };

/** Fetches of one topic, on connections of their own: a broker answers one after the other. */
export type Fetcher = {
  /** The broker that leads each partition, as known for some seconds. */
  leaders(): Promise<readonly number[]>;
  /** Waits for records behind these offsets of partitions that one broker leads. */
  fetch(leader: number, offsets: ReadonlyMap<number, bigint>): Promise<Fetched[]>;
  destroy(): void;
};

type Fetching = BrokerConnection & { topic: string; limits: ClientLimits; maxWaitMs: number };

/** Opens fetches by a consumer, which need be no member of a group. */
export function openFetcher(consumer: Consumer, options: Fetching): Fetcher {
  const { topic, limits, maxWaitMs } = options;
  const connectionPool = new ConnectionPool(options.clientId, clientOptions(options, limits));
  prepare(connectionPool, options);
  const read = async () => (await consumer.metadata({ topics: [topic] })).topics.get(topic)!;
  return {
    leaders: async () => (await read()).partitions.map(({ leader }) => leader),
    fetch: async (node, offsets) => {
      const { id: topicId } = await read();
      const partitions = [...offsets].map(([partition, fetchOffset]) => {
        const epochs = { currentLeaderEpoch: -1, lastFetchedEpoch: -1 };
        return { partition, fetchOffset, partitionMaxBytes: fetchBytes.ofPartitionMax, ...epochs };
      });
      const request = { node, topics: [{ topicId, partitions }], connectionPool };
      const limits = { maxWaitTime: maxWaitMs, minBytes: 1, maxBytes: fetchBytes.max };
      const isolationLevel = FetchIsolationLevels.READ_COMMITTED;
      try {
        const response = await consumer.fetch({ ...request, ...limits, isolationLevel });
        return partitionsOf(response).flatMap((each) => readPartition(topic, each, offsets));
      } catch (error) {
        const gone = partitionsThatAreGone(error);
        if (gone.length === 0) throw error;
        return gone.map((partition) => ({ outcome: 'gone', partition }));
      }
    },
    destroy: () => destroyPool(connectionPool),
  };
}

function partitionsOf(response: FetchResponse): FetchResponsePartition[] {
  return response.responses.flatMap(({ partitions }) => partitions);
}

const offsetOutOfRange = 1;

/** What the other partitions of the answer held is fetched again. */
function partitionsThatAreGone(error: unknown): number[] {
  if (!isAnswer(error, 'OFFSET_OUT_OF_RANGE')) return [];
  const { response } = error as { response?: FetchResponse };
  if (response === undefined) return [];
  const gone = partitionsOf(response).filter(({ errorCode }) => errorCode === offsetOutOfRange);
  return gone.map(({ partitionIndex }) => partitionIndex);
}

/** Batches come whole: what is before the offset that was asked for is left out. */
function readPartition(
  topic: string,
  answer: FetchResponsePartition,
  offsets: ReadonlyMap<number, bigint>,
): Fetched[] {
  const { partitionIndex: partition, records: batches, highWatermark: end } = answer;
  const from = offsets.get(partition);
  const last = batches?.at(-1);
  if (from === undefined || !batches || last === undefined) return [];
  const records = committedBatches(batches, answer.abortedTransactions ?? []).flatMap((batch) =>
    batch.records.map((record) => receivedRecord({ topic, partition }, batch, record)),
  );
  const wanted = records.filter(({ offset }) => offset >= from);
  const next = last.firstOffset + BigInt(last.lastOffsetDelta) + 1n;
  return [{ outcome: 'read', partition, records: wanted, from, next, end }];
}

type Aborted = NonNullable<FetchResponsePartition['abortedTransactions']>;

/**
 * Batches with records that count: no markers, and nothing of a transaction that was aborted. The
 * library leaves out only what lies between the first offset of a producer's last aborted
 * transaction and its marker in the same answer; what it left in is left out here, as Kafka's own
 * consumer does (Fetcher, `abortedProducerIds`).
 */
function committedBatches(batches: readonly RecordsBatch[], aborted: Aborted): RecordsBatch[] {
  const begins = [...aborted].sort((one, other) => (one.firstOffset < other.firstOffset ? -1 : 1));
  const isAborting = new Set<bigint>();
  return batches.filter((batch) => {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta);
    while (begins[0] !== undefined && begins[0].firstOffset <= last) {
      isAborting.add(begins.shift()!.producerId);
    }
    if ((batch.attributes & IS_CONTROL) !== 0) {
      if (isAbortMarker(batch)) isAborting.delete(batch.producerId);
      return false;
    }
    return (batch.attributes & IS_TRANSACTIONAL) === 0 || !isAborting.has(batch.producerId);
  });
}

/** The key of a marker: its version, then its type, 0 for an abort. */
function isAbortMarker({ records: [marker] }: RecordsBatch): boolean {
  return marker?.key?.readInt16BE(2) === 0;
}

const isLogAppendTime = 1 << 3;

function receivedRecord(
  source: { topic: string; partition: number },
  batch: RecordsBatch,
  record: KafkaRecord,
): ReceivedRecord {
  // A broker that stamps records by its own clock writes that time into the batch alone.
  const isStamped = (batch.attributes & isLogAppendTime) !== 0;
  const timestamp = isStamped ? batch.maxTimestamp : batch.firstTimestamp + record.timestampDelta;
  return {
    ...source,
    offset: batch.firstOffset + BigInt(record.offsetDelta),
    key: record.key,
    value: record.value,
    headers: headersOf(record),
    timestamp: String(timestamp),
  };
}

/** One value, or a list where a name is there several times, as the other driver gives them. */
function headersOf({ headers }: KafkaRecord): ReceivedHeaders {
  // By a map: objects inherit `constructor` and `__proto__`, which are names like any other here.
  const named = new Map<string, Buffer | null | (Buffer | null)[]>();
  for (const [bytes, value] of headers) {
    const name = String(bytes ?? '');
    const before = named.get(name);
    named.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(named);
}

const readLimits = { requestTimeoutMs: 10_000, retries: 5, retryDelayMs: 200 };

/** Reads by fetches alone. */
export async function readStretches(
  options: BrokerConnection & { topic: string },
  { stretches, take, withinMs, isEnough }: Wanted,
): Promise<void> {
  const groupId = `${options.clientId}-reader`;
  const consumer = new Consumer({ ...clientOptions(options, readLimits), groupId });
  prepare(consumer.connections, options);
  consumer.topics.track(options.topic);
  const fetcher = openFetcher(consumer, { ...options, limits: readLimits, maxWaitMs: 100 });
  const missing = new Map(stretches.map((stretch) => [stretch.partition, { ...stretch }]));
  const readFrom = async (leader: number, partitions: readonly number[]) => {
    const offsets = new Map(partitions.map((each) => [each, missing.get(each)!.from]));
    for (const fetched of await fetcher.fetch(leader, offsets)) {
      const stretch = missing.get(fetched.partition)!;
      if (fetched.outcome === 'gone') throw new Error(`offset ${stretch.from} is gone`);
      take(fetched.records.filter(({ offset }) => offset < stretch.to));
      stretch.from = fetched.next;
      const { partition } = fetched;
      if (stretch.from >= stretch.to || isEnough?.(partition) === true) missing.delete(partition);
    }
  };
  const until = performance.now() + withinMs;
  try {
    while (missing.size > 0) {
      if (performance.now() > until) throw new Error(`${options.topic} was not read in time`);
      const leaders = await fetcher.leaders();
      const byLeader = Map.groupBy(missing.keys(), (partition) => leaders[partition]!);
      for (const [leader, partitions] of byLeader) await readFrom(leader, partitions);
    }
  } finally {
    fetcher.destroy();
    destroyClient(consumer, options);
  }
}
