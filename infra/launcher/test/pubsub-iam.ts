import { once } from 'node:events';
import {
  connect,
  constants,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { testEndpoints, testNamespace, type Cleanup } from '@triplock/testing';
import { namesIn, usualNames, type Names } from '../names.ts';
import { askPubSub } from '../parts/pubsub.ts';
import { pubsubRights, type PubSubPermission, type PubSubRight } from '../broker-rights.ts';
import { createSubscriptions } from '../provision/topics.ts';
import type { SubscriptionName } from '../services.ts';

/*
 * The emulator asks nobody who they are, and IAM runs at Google alone. So a proxy stands before the
 * emulator, one for each service, that sees every call on the wire and lets pass what by Google's
 * table of methods and permissions the service's rights let pass. It stands on that table being
 * right; that IAM keeps to it is Google's word.
 */

/**
 * What each method of gRPC wants (cloud.google.com/pubsub/docs/access-control, "Required Pub/Sub
 * permissions"), of the resource that its request names first; what is made wants it of the
 * project, and nobody has that. Left out because nobody holds them:
 * `pubsub.topics.attachSubscription`, which CreateSubscription wants of the topic too, and
 * `pubsub.snapshots.seek`, which Seek wants of a snapshot. Whatever is not here is refused, such as
 * CreateSnapshot.
 */
const wanted: Readonly<Record<string, PubSubPermission>> = {
  'Publisher/CreateTopic': 'pubsub.topics.create',
  'Publisher/UpdateTopic': 'pubsub.topics.update',
  'Publisher/Publish': 'pubsub.topics.publish',
  'Publisher/GetTopic': 'pubsub.topics.get',
  'Publisher/DeleteTopic': 'pubsub.topics.delete',
  'Subscriber/CreateSubscription': 'pubsub.subscriptions.create',
  'Subscriber/GetSubscription': 'pubsub.subscriptions.get',
  'Subscriber/UpdateSubscription': 'pubsub.subscriptions.update',
  'Subscriber/DeleteSubscription': 'pubsub.subscriptions.delete',
  'Subscriber/ModifyPushConfig': 'pubsub.subscriptions.update',
  'Subscriber/ModifyAckDeadline': 'pubsub.subscriptions.consume',
  'Subscriber/Acknowledge': 'pubsub.subscriptions.consume',
  'Subscriber/Pull': 'pubsub.subscriptions.consume',
  'Subscriber/StreamingPull': 'pubsub.subscriptions.consume',
  'Subscriber/Seek': 'pubsub.subscriptions.consume',
};

/** A proxy before the emulator that lets pass what one service may do. */
export type PubSubIam = {
  emulatorHost: string;
  /** The permissions that it has, as `pubsub.topics.get topics/NAME`. */
  granted: readonly string[];
  /** Those that it used, each once. */
  used(): string[];
  /** Calls that were refused, each once, as `Publisher/Publish topics/NAME`. */
  refused(): string[];
};

/** Pub/Sub as each service sees it: a topic and subscriptions of one test's own in the emulator. */
export type PubSubWithIam = {
  names: Pick<Names, 'eventsTopic' | 'subscriptions'>;
  proxies: Readonly<Record<string, PubSubIam>>;
};

/** Opens a proxy for each service, with its rights alone; everything is gone after the test. */
export async function createPubSubWithIam(test: Cleanup): Promise<PubSubWithIam> {
  const { pubsub: emulator } = await testEndpoints();
  const names = { ...usualNames, ...namesIn(testNamespace('rights')) };
  const { eventsTopic, subscriptions } = names;
  await createSubscriptions(emulator, names);
  test.after(async () => {
    const own = Object.values(subscriptions).map((each) => `subscriptions/${each}`);
    for (const name of [...own, `topics/${eventsTopic}`]) {
      await askPubSub(emulator, { method: 'DELETE', name });
    }
  });
  const permissionsOf = (right: PubSubRight) => {
    const on =
      'topic' in right
        ? `topics/${eventsTopic}`
        : `subscriptions/${subscriptions[right.subscription as SubscriptionName]}`;
    return right.may.map((each) => `${each} ${on}`);
  };
  const open = async ([service, rights]: [string, readonly PubSubRight[]]) => {
    const granted = rights.flatMap(permissionsOf).sort();
    return [service, await openPubSubIam(test, emulator, granted)] as const;
  };
  const proxies = Object.fromEntries(await Promise.all(Object.entries(pubsubRights).map(open)));
  return { names: { eventsTopic, subscriptions }, proxies };
}

async function openPubSubIam(
  test: Cleanup,
  emulator: string,
  granted: readonly string[],
): Promise<PubSubIam> {
  const permissions = new Set(granted);
  const [used, refused] = [new Set<string>(), new Set<string>()];
  const broker = connect(`http://${emulator}`);
  const server = createServer();
  // Either side may go at any time; whoever waits learns of it by the stream's end.
  for (const each of [broker, server]) each.on('error', () => undefined);
  const clients = new Set<{ destroy(): void }>();
  server.on('session', (session) => {
    clients.add(session);
    session.on('error', () => undefined).on('close', () => clients.delete(session));
  });
  const judge = async (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const request = await firstMessage(stream);
    const method = String(headers[':path']).replace('/google.pubsub.v1.', '');
    const resource = resourceIn(request.subarray(framing)).replace(/^projects\/[^/]+\//, '');
    const permission = `${wanted[method] ?? 'unknown'} ${resource}`;
    if (!permissions.has(permission)) {
      refused.add(`${method} ${resource}`);
      return stream.respond(permissionDenied, { endStream: true });
    }
    used.add(permission);
    const call = broker.request({ ...headers, ':authority': emulator });
    call.write(request);
    answer(stream, call);
    stream.pipe(call);
  };
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    void judge(stream, headers);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.after(async () => {
    broker.destroy();
    for (const each of clients) each.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    emulatorHost: `127.0.0.1:${port}`,
    granted,
    used: () => [...used].sort(),
    refused: () => [...refused].sort(),
  };
}

/** An answer of headers alone (github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
const permissionDenied = {
  ':status': 200,
  'content-type': 'application/grpc',
  'grpc-status': '7',
  'grpc-message': 'User not authorized to perform this action.',
};

/** Passes on what the broker answers, with the status that stands behind it. */
function answer(
  stream: ServerHttp2Stream,
  call: ReturnType<ReturnType<typeof connect>['request']>,
) {
  let trailers: IncomingHttpHeaders = {};
  call.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
  call.on('trailers', (given) => (trailers = given));
  call.on('response', (headers) => {
    if ('grpc-status' in headers) return stream.respond(headers, { endStream: true });
    stream.respond(headers, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    call.pipe(stream);
  });
  stream.on('close', () => call.close(constants.NGHTTP2_CANCEL));
}

/** A message begins with a flag and its length. */
const framing = 5;

/** Reads until the first message is there whole, and leaves the rest for later. */
function firstMessage(stream: ServerHttp2Stream): Promise<Buffer> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    const take = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.length < framing || bytes.length < framing + bytes.readUInt32BE(1)) return;
      stream.off('data', take);
      stream.pause();
      resolve(bytes);
    };
    stream.on('data', take);
  });
}

/**
 * The resource is the first field of each request, or the first of the object that is the first
 * field of a change (google/pubsub/v1/pubsub.proto); a field is its number and type, and a length
 * (protobuf.dev/programming-guides/encoding).
 */
function resourceIn(message: Buffer): string {
  if (message[0] !== 0x0a) return 'none';
  let [at, length] = [1, 0];
  for (let shift = 0; ; shift += 7) {
    const byte = message[at++]!;
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  const field = message.subarray(at, at + length);
  return field[0] === 0x0a ? resourceIn(field) : field.toString();
}
