/**
 * gRPC status codes that decide what is done (grpc.github.io/grpc/core/md_doc_statuscodes.html).
 */
export const status = {
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  internal: 13,
  unavailable: 14,
} as const;

/** The gRPC status of an error, if it is one. */
export function statusOf(error: unknown): number | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === 'number' ? code : undefined;
}

/** What was to be written can never be stored: a check, a key or a type is against it. */
export class WriteRefusedError extends Error {
  override name = 'WriteRefusedError';
}

const refusals: readonly unknown[] = [
  status.invalidArgument,
  status.alreadyExists,
  status.failedPrecondition,
  status.outOfRange,
];

/** Whether a commit that ended so was refused for what it would have written. */
export const isRefusal = (error: unknown) =>
  refusals.includes(statusOf(error)) && !isInvalidated(error);

/**
 * Whether the session began another transaction since, as a call does whose answer was given up:
 * this one was not committed, for no fault of what it would have written.
 */
export function isInvalidated(error: unknown): boolean {
  return (
    statusOf(error) === status.failedPrecondition &&
    /invalidated by a later transaction/i.test((error as Error).message)
  );
}

const silences: readonly unknown[] = [
  status.cancelled,
  status.unknown,
  status.deadlineExceeded,
  status.internal,
  status.unavailable,
];

/** Whether a commit that ended so may have been done: the answer was lost and not given. */
export const mayHaveHappened = (error: unknown) => silences.includes(statusOf(error));

/** Whether the server forgot the session, as it does after an hour without use. */
export function isSessionLost(error: unknown): boolean {
  return statusOf(error) === status.notFound && /session not found/i.test((error as Error).message);
}

/** For how long the server asks to wait before an aborted transaction is tried again; ms. */
export function retryDelayOf(error: unknown): number | undefined {
  const { metadata } = error as { metadata?: { get?(name: string): unknown[] } };
  const [info] = metadata?.get?.('google.rpc.retryinfo-bin') ?? [];
  return Buffer.isBuffer(info) ? decodeRetryInfo(info) : undefined;
}

/**
 * `RetryInfo { Duration retry_delay = 1 }` with `Duration { int64 seconds = 1; int32 nanos = 2 }`.
 */
function decodeRetryInfo(bytes: Buffer): number | undefined {
  const duration = fieldsOf(bytes).get(1);
  if (!Buffer.isBuffer(duration)) return undefined;
  const fields = fieldsOf(duration);
  return Number(fields.get(1) ?? 0) * 1_000 + Number(fields.get(2) ?? 0) / 1e6;
}

/** The varint and length-delimited fields of a protobuf message, by number. */
function fieldsOf(message: Buffer): Map<number, number | Buffer> {
  const fields = new Map<number, number | Buffer>();
  let at = 0;
  const varint = () => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      const byte = message.readUInt8(at);
      at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const value = varint();
    if ((tag & 7) === 2) {
      fields.set(tag >> 3, message.subarray(at, at + value));
      at += value;
    } else {
      fields.set(tag >> 3, value);
    }
  }
  return fields;
}
