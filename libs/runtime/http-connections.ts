import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { isIP, isIPv6, type Socket } from 'node:net';

/** How patient a server is, and with how many at once. */
export type ConnectionLimits = {
  connectionsMax: number;
  /** Until a request's head, and the whole request, has to be here. */
  headTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long a connection is kept for a next request. */
  idleConnectionMs: number;
};

/** Node looks for what is late so often; its own 30 s would be the shortest of all time limits. */
const checkEveryMs = 500;

/** Those of servers whose callers are few and send at once: operators, providers, balancers. */
export const quickLimits: ConnectionLimits = {
  connectionsMax: 256,
  headTimeoutMs: 3_000,
  requestTimeoutMs: 10_000,
  idleConnectionMs: 5_000,
};

/** A server whose callers cannot hold it up by what they do not send. */
export function createBoundedServer(listener: RequestListener, limits = quickLimits): Server {
  const options = {
    headersTimeout: limits.headTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleConnectionMs,
    connectionsCheckingInterval: checkEveryMs,
  };
  const server = createServer(options, (request, response) => {
    if (saysOnce(request, 'host')) listener(request, response);
    else response.writeHead(400, { connection: 'close' }).end();
  });
  boundConnections(server, limits.connectionsMax);
  return server;
}

/**
 * Whether a request has at most one line of a header that has one value: its host, or whose it is.
 * With two, this server and whatever stands before it may each have believed another one: RFC 9112,
 * section 3.2, asks for a 400 for the host, and Node takes the first. None at all is left to
 * HTTP/1.0; of HTTP/1.1 Node refuses one without a host.
 */
export function saysOnce(
  { rawHeaders }: IncomingMessage,
  header: 'host' | 'authorization',
): boolean {
  let lines = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === header.length && name.toLowerCase() === header) lines += 1;
  }
  return lines <= 1;
}

const busy =
  'HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n' +
  'content-type: application/json\r\ncontent-length: 20\r\n\r\n{"detail":"not now"}';

/**
 * Keeps at most so many connections open. For one more, the connection makes way that has waited
 * longest without a whole request on it: half-sent ones, however many and from wherever, are in
 * nobody's way, and a client that sends its request at once is never among the oldest. What is
 * whole is answered; when every connection is at work, who comes gets a 503, which `busyAnswer`
 * writes with its head, and is closed.
 *
 * Call it when the server has its listeners of `checkContinue`, should it have any.
 */
export function boundConnections(
  server: Server,
  connectionsMax: number,
  busyAnswer: () => string = () => busy,
): void {
  /** By how long they have been open, or since their last answer; each with its open requests. */
  const open = new Map<Socket, Map<ServerResponse, IncomingMessage>>();

  server.on('connection', (socket) => {
    if (open.size >= connectionsMax && !makeWay(open)) {
      // What it sends is not read: it must not be done beside a 503. One that is gone needs none.
      socket.pause().on('error', () => undefined);
      socket.end(busyAnswer(), () => socket.destroy());
      return;
    }
    open.set(socket, new Map());
    socket.once('close', () => open.delete(socket));
  });

  const follow = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const requests = open.get(socket);
    if (requests === undefined) return;
    requests.set(response, request);
    response.once('close', () => {
      requests.delete(response);
      // Behind those that wait for longer. One that is closed is no longer there.
      if (open.delete(socket)) open.set(socket, requests);
    });
  };
  server.prependListener('request', follow);
  for (const event of ['checkContinue', 'checkExpectation']) {
    if (server.listenerCount(event) > 0) server.prependListener(event, follow);
  }
}

/** Closes the connection that has waited longest; false when none waits. */
function makeWay(open: Map<Socket, Map<ServerResponse, IncomingMessage>>): boolean {
  for (const [socket, requests] of open) {
    if (isAtWork(requests)) continue;
    open.delete(socket);
    socket.destroy();
    return true;
  }
  return false;
}

function isAtWork(requests: ReadonlyMap<ServerResponse, IncomingMessage>): boolean {
  for (const { complete } of requests.values()) if (complete) return true;
  return false;
}

/** What a request says of where it comes from, and where it does come from. */
export type Caller = { ip: string; socket: Pick<Socket, 'remoteAddress'> };

/**
 * Whom a failed authentication is counted to: the caller's IPv4 address, or its IPv6 network of 64
 * bits, because one machine has all addresses of such a network to choose from. What a proxy says
 * counts only when it is trusted and says an address.
 */
export function callerAddress({ ip, socket }: Caller): string {
  const address = isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  return isIPv6(address) ? networkOf(address) : address;
}

function networkOf(address: string): string {
  // The URL standard writes an address in one form: lower case, hexadecimal, shortest.
  const [zone] = address.split('%', 1);
  const { hostname } = new URL(`http://[${zone}]`);
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::');
  const before = head.split(':').filter((group) => group !== '');
  const after = tail.split(':').filter((group) => group !== '');
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}
