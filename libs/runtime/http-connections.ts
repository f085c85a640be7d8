import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { http } from './node-http.ts';

/** How patient a server is, with how many at once, and with how much from each of them. */
export type ConnectionLimits = {
  connectionsMax: number;
  /** Until a request's head, and the whole request, has to be here. */
  headTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long a connection is kept for a next request. */
  idleConnectionMs: number;
  /** Until some of an answer that was written has to be taken. */
  answerTimeoutMs: number;
  /** Requests of one connection that have no whole answer yet: after them nothing is read. */
  unansweredMax: number;
  /** Refusals in a row, after which a connection gets one more answer, and ends. */
  refusalsMax: number;
  /** Of a request's head, 16 KiB unless it is given. */
  headBytesMax?: number;
  /** How often what is late is looked for. */
  checkEveryMs?: number;
};

/** Node's own 30 s would be the shortest of all time limits. */
const checkEveryMs = 500;

/** Those of servers whose callers are few and send at once: operators, providers, balancers. */
export const quickLimits: ConnectionLimits = {
  connectionsMax: 256,
  headTimeoutMs: 3_000,
  requestTimeoutMs: 10_000,
  idleConnectionMs: 5_000,
  answerTimeoutMs: 20_000,
  // None of them sends a next request before it has its answer.
  unansweredMax: 16,
  refusalsMax: 16,
};

/** What a server says and does by itself. */
export type Edge = {
  /** The answer to who comes while every connection is at work, with its head. */
  busyAnswer?: () => string;
  /** Whether the listener lets those go on who ask first (`Expect`); else all are let. */
  judgesExpectations?: boolean;
};

/** A server whose callers cannot hold it up by what they do not send, and that has one host. */
export function createBoundedServer(listener: RequestListener, limits = quickLimits): Server {
  return createGuardedServer((request, response) => {
    if (saysOnce(request, 'host')) listener(request, response);
    else refuseForm(response);
  }, limits);
}

/**
 * A server of which no client takes more than a bounded share, whatever it sends, and whatever it
 * does not send or take: all of ours are made here. The listener has to look for a second `Host`.
 *
 * Per connection: so many requests without an answer, after which nothing is read any more, the
 * answers to those before are given, and the connection ends; one more answer after so many
 * refusals in a row; a body in so many pieces, also of a request that was answered; and a deadline
 * for whoever takes nothing of what was written for it. Bytes that nobody takes are Node's to
 * bound: it reads no next request while more than 64 KiB wait.
 *
 * At most so many connections are open. For one more, a connection makes way that takes nothing of
 * its answers, or else the one that has waited longest without a whole request on it: half-sent
 * requests and unread answers, however many and from wherever, are in nobody's way, and a client
 * that sends its request at once is never among the oldest. When every connection is at work, who
 * comes gets a 503 and is closed.
 */
export function createGuardedServer(
  listener: RequestListener,
  limits: ConnectionLimits,
  { busyAnswer = () => busy, judgesExpectations = false }: Edge = {},
): Server {
  const everyMs = limits.checkEveryMs ?? checkEveryMs;
  const server = http.createServer({
    IncomingMessage: RequestInPieces,
    ...(limits.headBytesMax !== undefined && { maxHeaderSize: limits.headBytesMax }),
    headersTimeout: limits.headTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleConnectionMs,
    connectionsCheckingInterval: everyMs,
    // Node would refuse it before anybody has counted it: `handle` does.
    requireHostHeader: false,
  });
  const open: Connections = new Map();
  server.on('connection', (socket) => {
    if (open.size >= limits.connectionsMax && !makeWay(open)) {
      turnAway(socket, busyAnswer());
      return;
    }
    const connection: Connection = {
      unanswered: new Map(),
      refusals: 0,
      isLast: false,
      untaken: undefined,
    };
    open.set(socket, connection);
    socket.once('close', () => open.delete(socket));
    stopParsing(socket, () => {
      if (!connection.isLast && connection.unanswered.size < limits.unansweredMax) return false;
      connection.isLast = true;
      // What still comes is read away once all is answered, and not before.
      if (!socket.writableEnded) socket.pause();
      return true;
    });
  });

  const handle: RequestListener = (request, response) => {
    const { socket } = request;
    const connection = open.get(socket);
    // Closed since: nobody would get an answer.
    if (connection === undefined) return;
    connection.unanswered.set(response, request);
    response.once('close', () => {
      settle(connection, response);
      // Behind those that wait for longer. One that is closed is no longer there.
      if (open.delete(socket)) open.set(socket, connection);
      if (connection.isLast && connection.unanswered.size === 0) endGently(socket);
    });
    if (connection.refusals >= limits.refusalsMax) {
      connection.isLast = true;
      response.shouldKeepAlive = false;
    }
    if (request.headers.host === undefined && request.httpVersion === '1.1') refuseForm(response);
    else listener(request, response);
  };
  server.on('request', handle);
  server.on('checkContinue', (request, response) => {
    if (!judgesExpectations) response.writeContinue();
    handle(request, response);
  });
  // An expectation that nobody knows is ignored (RFC 9110, section 10.1.1).
  server.on('checkExpectation', handle);
  lookForUntaken(server, open, { everyMs, answerTimeoutMs: limits.answerTimeoutMs });
  return server;
}

/** A second line, or none, of what has to be said once. */
function refuseForm(response: ServerResponse): void {
  response.writeHead(400, { connection: 'close' }).end();
}

/**
 * Whether a request has at most one line of a header that has one value: its host, or whose it is.
 * With two, this server and whatever stands before it may each have believed another one: RFC 9112,
 * section 3.2, asks for a 400 for the host, and Node takes the first. None at all is left to
 * HTTP/1.0; of HTTP/1.1 every server here refuses one without a host.
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

type Connection = {
  /** In the order in which they came. */
  unanswered: Map<ServerResponse, IncomingMessage>;
  /** In a row, until now. */
  refusals: number;
  /** Nothing that comes after what is unanswered is handled. */
  isLast: boolean;
  /** Of what was written something waits since then, when so many bytes had been taken. */
  untaken: { sinceMs: number; takenBytes: number } | undefined;
};

/** By how long they have been open, or since their last answer. */
type Connections = Map<Socket, Connection>;

const busy =
  'HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n' +
  'content-type: application/json\r\ncontent-length: 20\r\n\r\n{"detail":"not now"}';

/** What it sends is not read: it must not be done beside a 503. One that is gone needs none. */
function turnAway(socket: Socket, answer: string): void {
  stopParsing(socket, () => true);
  socket.pause().on('error', () => undefined);
  socket.end(answer, () => socket.destroy());
}

function settle(connection: Connection, response: ServerResponse): void {
  connection.unanswered.delete(response);
  const { statusCode } = response;
  const isRefused = statusCode >= 400 && statusCode < 500;
  connection.refusals = isRefused ? connection.refusals + 1 : 0;
}

/** Closes a connection that is not at work; false when there is none. */
function makeWay(open: Connections): boolean {
  const nowMs = performance.now();
  let longest: Socket | undefined;
  for (const [socket, connection] of open) {
    if (isAtWork(connection, nowMs)) continue;
    longest ??= socket;
    // One that rests has a client that may just be sending its next request.
    if (!isUnread(connection, nowMs)) continue;
    longest = socket;
    break;
  }
  if (longest === undefined) return false;
  open.delete(longest);
  longest.destroy();
  return true;
}

/** Whoever is slower than that in taking anything of an answer makes way for others. */
const untakenMs = 250;

function isUnread({ untaken }: Connection, nowMs: number): boolean {
  return untaken !== undefined && nowMs - untaken.sinceMs >= untakenMs;
}

function isAtWork(connection: Connection, nowMs: number): boolean {
  const isTaken = !isUnread(connection, nowMs);
  for (const [response, request] of connection.unanswered) {
    if (request.complete && (isTaken || !response.writableEnded)) return true;
  }
  return false;
}

/**
 * Node parses all that came at once, which is 64 KiB, and so thousands of requests, each with its
 * objects, before anything else can happen. It has no interface to stop that, but its parser does
 * what it is answered for each head: a 2 ends it there, as at the border to another protocol. The
 * request is then never seen by the server, and neither is what follows it; whoever it may be that
 * sends a body behind it, no handled request is given a byte of it, because the one before was
 * whole.
 *
 * Should a later Node name its parser otherwise, requests are bounded no more, which
 * http-connections.test.ts tells.
 */
function stopParsing(socket: Socket & { parser?: Parser | null }, isEnough: () => boolean): void {
  const { parser } = socket;
  const handle = parser?.onIncoming;
  if (!parser || !handle) return;
  parser.onIncoming = (request, keepAlive) => {
    if (!isEnough()) return handle(request, keepAlive);
    // Or Node would hand the connection over to another protocol.
    request.upgrade = false;
    return 2;
  };
}

/** Of Node's parser, what is used here. */
type Parser = { onIncoming?: OnIncoming | null };
type OnIncoming = (request: IncomingMessage & { upgrade?: boolean }, keepAlive: boolean) => number;

/**
 * What a partner may send, 64 KiB, in pieces of 16 bytes, or a megabyte in segments of a network:
 * whoever writes a body while making it sends fewer.
 */
const piecesMax = 4_096;

/**
 * Ends the connection at a body that comes in more pieces than that. For each chunk of a byte Node
 * makes objects and calls back, which takes a thousand times as long as the bytes do: it would be
 * kept busy by a few connections, also with what is left of requests that were answered.
 */
class RequestInPieces extends http.IncomingMessage {
  #pieces = 0;

  override push(piece: Buffer | null): boolean {
    if (piece !== null) this.#pieces += 1;
    if (this.#pieces <= piecesMax) return super.push(piece);
    this.socket.destroy();
    return false;
  }

  /** Node's way to read away what is left of a body, but that its pieces are counted. */
  _dump(): void {
    this.removeAllListeners('data');
    this.resume();
  }
}

/** How long what a client still sends is read away, so that it can read what it was answered. */
const lingerMs = 1_000;

/**
 * Ends a connection after its last answer. To close it on bytes that were not read would reset it,
 * and could cost the client that answer: they are read, and dropped, for a moment.
 */
function endGently(socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return;
  socket.end();
  socket.resume();
  const over = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(over));
}

type Looking = { everyMs: number; answerTimeoutMs: number };

/**
 * Lets go of those that take nothing of what was written for them. It counts whole writes, because
 * of the bytes of one Node does not say how many have left; so a document has to be taken within
 * the deadline, and of a stream a piece.
 */
function lookForUntaken(
  server: Server,
  open: Connections,
  { everyMs, answerTimeoutMs }: Looking,
): void {
  const look = () => {
    const nowMs = performance.now();
    for (const [socket, connection] of open) {
      if (socket.writableLength === 0) {
        connection.untaken = undefined;
        continue;
      }
      const takenBytes = socket.bytesWritten - socket.writableLength;
      const { untaken } = connection;
      if (untaken?.takenBytes !== takenBytes) {
        connection.untaken = { sinceMs: nowMs, takenBytes };
      } else if (nowMs - untaken.sinceMs >= answerTimeoutMs) {
        socket.destroy();
      }
    }
  };
  let looking: NodeJS.Timeout | undefined;
  server.on('listening', () => {
    clearInterval(looking);
    looking = setInterval(look, Math.min(everyMs, untakenMs)).unref();
  });
  server.on('close', () => clearInterval(looking));
}
