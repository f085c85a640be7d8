import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** How much to send, whereto, and as whom. */
export type LoadOrder = {
  /** Base URLs; connections are spread over them. */
  targets: readonly string[];
  /** Of the partners who pay, in turn. */
  apiKeys: readonly string[];
  /** Random, so that every idempotency key is a fresh one. */
  run: string;
  connections: number;
  seconds: number;
  /** Requests a second, due whether or not earlier ones are answered; absent: a closed loop. */
  rate?: number;
  /**
   * Sends that many keys of the run over and over, which were accepted before; absent: fresh ones.
   */
  again?: number;
  /** Card payments, instead of book transfers. */
  cards?: true;
};

/** What was sent and answered. Times in milliseconds. */
export type LoadReport = {
  accepted: number;
  /** Answers other than 202 by status, `error` for requests without one, `unsent` for no time. */
  others: Readonly<Record<string, number>>;
  /** From the first request to the last answer. */
  tookMs: number;
  /** To the end of the 202: from sending in a closed loop, from when it was due at a rate. */
  latencyMs: { p50: number; p99: number; max: number };
  /** CPU time of the process that sent it. */
  cpuMicros: number;
};

type Sending = {
  order: LoadOrder;
  endsAt: number;
  sent: number;
  latency: RecordableHistogram;
  others: Map<string, number>;
};

/** Sends payments over keep-alive connections, one request at a time on each. */
async function sendLoad(order: LoadOrder): Promise<LoadReport> {
  const connections = await openConnections(order);
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + order.seconds * 1_000;
  const sending = {
    order,
    endsAt,
    sent: 0,
    latency: createHistogram(),
    others: new Map<string, number>(),
  };
  if (order.rate === undefined) {
    await Promise.all(connections.map((connection) => keepBusy(connection, sending)));
  } else await sendAtRate(connections, sending, order.rate);
  const tookMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  for (const connection of connections) connection.close();
  const { latency } = sending;
  return {
    accepted: latency.count,
    others: Object.fromEntries(sending.others),
    tookMs,
    latencyMs: {
      p50: latency.percentile(50) / 1_000,
      p99: latency.percentile(99) / 1_000,
      max: latency.count === 0 ? 0 : latency.max / 1_000,
    },
    cpuMicros: user + system,
  };
}

/** A closed loop: the next payment when the one before it is answered. */
async function keepBusy(connection: Connection, sending: Sending): Promise<void> {
  while (performance.now() < sending.endsAt) {
    await sendNext(connection, sending, performance.now());
  }
}

/** What could not be sent for so long after the end is given up, and counted. */
const overtimeMs = 5_000;

/**
 * An open loop: payments are due at even distances, and one that finds no connection free waits,
 * which counts as its latency. Resolves when the last is answered.
 */
async function sendAtRate(
  connections: readonly Connection[],
  sending: Sending,
  rate: number,
): Promise<void> {
  const startedAt = performance.now();
  const total = Math.round(rate * sending.order.seconds);
  const dueAt = (number: number) => startedAt + (number * 1_000) / rate;
  const lastAt = sending.endsAt + overtimeMs;
  let issued = 0;
  const isDue = () => {
    const now = performance.now();
    return issued < total && now < lastAt && dueAt(issued) <= now;
  };
  const free = [...connections];
  const underWay = new Set<Promise<void>>();
  const work = async (connection: Connection): Promise<void> => {
    while (isDue()) await sendNext(connection, sending, dueAt(issued++));
    free.push(connection);
  };
  while (issued < total && performance.now() < lastAt) {
    while (isDue() && free.length > 0) {
      const working = work(free.pop()!);
      underWay.add(working);
      void working.then(() => underWay.delete(working));
    }
    await delay(Math.max(1, dueAt(issued) - performance.now()));
  }
  await Promise.all(underWay);
  if (issued < total) sending.others.set('unsent', total - issued);
}

/** Sends a payment and counts its answer from a time. */
async function sendNext(connection: Connection, sending: Sending, from: number): Promise<void> {
  const { order } = sending;
  const number = order.again === undefined ? sending.sent : sending.sent % order.again;
  sending.sent += 1;
  const status = await connection.send(requestOf(order, number));
  // Recorded in microseconds, because a histogram holds whole numbers from 1 on.
  if (status === '202') {
    sending.latency.record(Math.max(1, Math.round((performance.now() - from) * 1_000)));
  } else sending.others.set(status, (sending.others.get(status) ?? 0) + 1);
}

/** One keep-alive connection. */
export type Connection = {
  /**
   * Sends a request once no other is under way, and resolves to the answer's status, or to `error`
   * when none came. `written` is called when the system has the request's bytes.
   */
  send(request: string, written?: () => void): Promise<string>;
  close(): void;
};

/** Opens all connections of a load, spread over its targets. */
export function openConnections({
  targets,
  connections,
}: Pick<LoadOrder, 'targets' | 'connections'>): Promise<Connection[]> {
  const each = Array.from({ length: connections }, (_, n) => targets[n % targets.length]!);
  return Promise.all(each.map(openConnection));
}

/**
 * By a socket and no client: what a request takes here is taken from the system's cores. It reads
 * what our servers answer, a head with a content-length, and nothing else of HTTP.
 */
async function openConnection(target: string): Promise<Connection> {
  let socket = await open(target);
  let isOver = false;
  return {
    send: async (request, written) => {
      if (isOver) socket = await open(target);
      const answer = await answerOf(socket, request, written);
      isOver = answer.isLast;
      return answer.status;
    },
    close: () => void socket.destroy(),
  };
}

async function open(target: string): Promise<Socket> {
  const { hostname, port } = new URL(target);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  socket.setEncoding('latin1');
  // What breaks it is seen by the request under way, or by the next one.
  socket.on('error', () => undefined);
  return socket;
}

type Answer = { status: string; isLast: boolean };

function answerOf(socket: Socket, request: string, written?: () => void): Promise<Answer> {
  return new Promise((resolve) => {
    let text = '';
    const end = (answer: Answer) => {
      socket.off('data', read);
      socket.off('close', broken);
      resolve(answer);
    };
    const broken = () => end({ status: 'error', isLast: true });
    const read = (chunk: string) => {
      text += chunk;
      const headEnd = text.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const length = /^content-length: *(\d+)/im.exec(text);
      if (length === null) return end({ status: 'error', isLast: true });
      if (text.length < headEnd + 4 + Number(length[1])) return;
      const isLast = /^connection: *close/im.test(text.slice(0, headEnd));
      end({ status: text.slice(9, 12), isLast });
    };
    socket.on('data', read);
    socket.on('close', broken);
    if (socket.destroyed) return broken();
    socket.write(request, 'latin1', written);
  });
}

/** A payment of the run, as its partner sends it. */
export function requestOf(
  { run, apiKeys, cards }: Pick<LoadOrder, 'run' | 'apiKeys' | 'cards'>,
  number: number,
): string {
  const body = bodyOf({ run, number, ...(cards && { cards }) });
  return (
    'POST /v1/payments HTTP/1.1\r\nhost: bench\r\n' +
    `authorization: Bearer ${apiKeys[number % apiKeys.length]}\r\n` +
    `content-type: application/json\r\ncontent-length: ${body.length}\r\n` +
    `idempotency-key: ${keyOf({ run, number })}\r\n\r\n${body}`
  );
}

/** What makes a request unique: the run of the bench, and its number in it. */
export type RequestNumber = { run: string; number: number; cards?: true };

/** The idempotency key of a request. Nobody used it before: `run` is random. */
export function keyOf({ run, number }: RequestNumber): string {
  return `bench-${run}-${padded(number)}`;
}

/**
 * A payment as a shop would send it: every text that it may have, at a usual length, and in ASCII.
 * All are equally long, so that no run has more to read than another.
 */
export function bodyOf({ run, number, cards }: RequestNumber): string {
  const order = padded(number);
  return JSON.stringify({
    amount: 2_500,
    currency: 'EUR',
    reference: `order-${run}-${order}`,
    description: 'Two tickets for the evening of the 14th, row 7',
    metadata: { order_id: order, customer: 'c-104277', channel: 'web' },
    ...(cards && { payment_method: 'pm_card_visa' }),
  });
}

function padded(number: number): string {
  return String(number).padStart(8, '0');
}

/** The generator is a process of its own. */
export function openHelper(): Promise<typeof sendLoad> {
  return Promise.resolve(sendLoad);
}
