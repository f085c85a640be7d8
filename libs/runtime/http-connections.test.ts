import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import { Socket, type AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { createBoundedServer, quickLimits, type ConnectionLimits } from './http-connections.ts';

/** A server of its own, with what it handled by target. */
async function aServer(
  t: TestContext,
  limits: Partial<ConnectionLimits> = {},
  answer: RequestListener = (_, response) => void response.end(),
) {
  const handled: string[] = [];
  const server = createBoundedServer(
    (request, response) => {
      handled.push(request.url!);
      answer(request, response);
    },
    { ...quickLimits, ...limits },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  const open = (socket = new Socket()) => {
    socket.connect(port, '127.0.0.1').on('error', () => undefined);
    t.after(() => void socket.destroy());
    return socket;
  };
  /** All that is answered to what is sent at once, until the server ends the connection. */
  const exchange = async (sent: string) => {
    const socket = open();
    socket.write(sent);
    return text(socket);
  };
  return { server, handled, open, exchange };
}

const get = (path: string | number, more = '') => `GET /${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
const post = (path: string | number, body: string) =>
  `POST /${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const targets = (count: number) => Array.from({ length: count }, (_, at) => `/${at}`);
const statusesIn = (answers: string) =>
  [...answers.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

const connectionsOf = (server: Server) =>
  new Promise<number>((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );

/** Answers with what was asked for, once all of it has come, and not at once. */
const echo: RequestListener = (request, response) => {
  void text(request).then((body) => setImmediate(() => response.end(`${request.url} ${body};`)));
};

test('as many requests as a connection may have unanswered are answered in order, and then more', async (t) => {
  const { open } = await aServer(t, { unansweredMax: 64 }, echo);
  const socket = open();
  const answers = async (round: number) => {
    const sent = targets(64).map((target, at) =>
      at % 2 === 0 ? get(`${round}${target}`) : post(`${round}${target}`, 'body'),
    );
    socket.write(sent.join(''));
    let got = '';
    while ((got.match(/;/g) ?? []).length < 64) got += String(await once(socket, 'data'));
    return [...got.matchAll(/\/\d\/(\d+) (\w*);/g)].map(([, at, body]) => [Number(at), body]);
  };
  const expected = targets(64).map((_, at) => [at, at % 2 === 0 ? '' : 'body']);
  for (const round of [0, 1, 2]) assert.deepEqual(await answers(round), expected);
});

test('of more none is handled: those before are answered, and the connection ends', async (t) => {
  const { handled, exchange, server } = await aServer(t, { unansweredMax: 8 }, echo);
  const sent = targets(5_000).map((target, at) =>
    at % 2 === 0 ? get(target.slice(1)) : post(target.slice(1), '0123456789'),
  );
  const answers = await exchange(sent.join(''));
  assert.deepEqual(handled, targets(8));
  assert.deepEqual(statusesIn(answers), Array(8).fill(200));
  assert.match(answers, /\/7 0123456789;$/);
  await until(async () => (await connectionsOf(server)) === 0);
});

test('what comes behind the last that is handled is no request and no body of one, whatever it says', async (t) => {
  const smuggled = get('smuggled');
  const behind = [
    post('next', smuggled.repeat(50)),
    `POST /next HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n`,
    get('next', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
    'CONNECT next:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'garbage\r\n\r\n',
  ];
  for (const next of behind) {
    const { handled, exchange } = await aServer(t, { unansweredMax: 2 }, echo);
    const exchanged = exchange(get(0) + post(1, 'whole') + next + smuggled.repeat(3_000));
    // What is no request at all resets the connection, and may cost the answers before it.
    const isRequest = /^(POST|GET)/.test(next);
    const answers = isRequest ? await exchanged : await exchanged.catch(() => '');
    assert.deepEqual(handled, targets(2), next);
    if (isRequest) assert.match(answers, /\/0 ;.*\/1 whole;$/s);
  }
});

test('however fast it sends, a connection has so many unanswered at once, over all that it sends', async (t) => {
  let [open, most] = [0, 0];
  const release = Promise.withResolvers<void>();
  const { exchange, handled } = await aServer(t, { unansweredMax: 8 }, (_, response) => {
    most = Math.max(most, (open += 1));
    response.once('close', () => (open -= 1));
    void release.promise.then(() => response.end());
  });
  const answers = Promise.all(targets(20).map(() => exchange(get('one').repeat(20_000))));
  await until(() => handled.length === 160);
  release.resolve();
  assert.deepEqual((await answers).map(statusesIn), Array(20).fill(Array(8).fill(200)));
  assert.ok(most <= 160);
});

test('after so many refusals in a row one more is answered, and the connection ends', async (t) => {
  const { open, handled } = await aServer(t, { refusalsMax: 3 }, (request, response) => {
    response.statusCode = request.url === '/good' ? 204 : 404;
    response.end();
  });
  const socket = open();
  const ask = async (path: string) => {
    socket.write(get(path));
    return String(await once(socket, 'data'));
  };
  for (const path of ['bad', 'bad', 'good', 'bad', 'bad', 'bad']) {
    assert.doesNotMatch(await ask(path), /connection: close/i);
  }
  const ended = once(socket, 'close');
  const last = await ask('bad');
  assert.deepEqual(statusesIn(last), [404]);
  assert.match(last, /connection: close/i);
  await ended;
  assert.equal(handled.length, 7);
});

test('behind the answer that ends a connection nothing is handled', async (t) => {
  const { open, handled } = await aServer(t, { refusalsMax: 1 }, (_, response) => {
    response.writeHead(401).end();
  });
  const socket = open();
  socket.write(get(0));
  await once(socket, 'data');
  socket.write(
    targets(100)
      .map((target) => get(target.slice(1)))
      .join(''),
  );
  assert.deepEqual(statusesIn(await text(socket)), [401]);
  assert.equal(handled.length, 2);
});

test('a request of HTTP/1.1 without a host, and one with two, is a 400 and the last', async (t) => {
  const { exchange, handled } = await aServer(t);
  const none = 'GET / HTTP/1.1\r\n\r\n';
  for (const request of [none, get(0, 'Host: b\r\n'), none.repeat(3_000)]) {
    assert.deepEqual(statusesIn(await exchange(request)), [400]);
  }
  assert.deepEqual(handled, []);
});

test('who waits to be let go on is let, and what else is expected is ignored', async (t) => {
  const { exchange } = await aServer(t, {}, echo);
  const more = 'Connection: close\r\nContent-Length: 4\r\n';
  const expecting = (what: string) =>
    `POST /0 HTTP/1.1\r\nHost: a\r\n${more}Expect: ${what}\r\n\r\nbody`;
  assert.deepEqual(statusesIn(await exchange(expecting('100-continue'))), [100, 200]);
  assert.deepEqual(statusesIn(await exchange(expecting('the-unexpected'))), [200]);
});

/** Asks again, one turn of the loop after the other, until it is so. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
}

/** More than the kernel keeps for a connection that nobody reads. */
const large = Buffer.alloc(64 * 1024 * 1024, 'x');

/** A client that asks and takes nothing, not even into its own memory. */
function asksAndTakesNothing(open: (socket: Socket) => Socket, request = get(0)): Socket {
  const socket = new Socket();
  socket.pause();
  open(socket).write(request);
  return socket;
}

test('whoever takes nothing of its answer is let go of when its time is up', async (t) => {
  const answer: RequestListener = (_, response) => void response.end(large);
  const { server, open, handled } = await aServer(t, { answerTimeoutMs: 500 }, answer);
  const idle = targets(20).map(() => asksAndTakesNothing(open));
  await until(() => handled.length === idle.length);
  await until(async () => (await connectionsOf(server)) === 0);
});

test('whoever takes its answer piece by piece gets all of it, however long it takes', async (t) => {
  const pieces = 40;
  const piece = large.subarray(0, 1024 * 1024);
  const { open } = await aServer(t, { answerTimeoutMs: 1_000 }, (_, response) => {
    const stream = Readable.from(Array<Buffer>(pieces).fill(piece));
    stream.pipe(response);
  });
  const socket = asksAndTakesNothing(open, get(0, 'Connection: close\r\n'));
  // By a line that needs three times as long as the deadline.
  const everyMs = 3_000 / pieces;
  let bytes = 0;
  let last = '';
  await new Promise<void>((resolve) => {
    const line = setInterval(() => socket.resume(), everyMs);
    socket.on('data', (taken: Buffer) => {
      if (Math.floor((bytes + taken.length) / piece.length) > Math.floor(bytes / piece.length)) {
        socket.pause();
      }
      bytes += taken.length;
      last = taken.toString('latin1').slice(-5);
    });
    socket.once('close', () => (clearInterval(line), resolve()));
  });
  assert.equal(last, '0\r\n\r\n');
  assert.ok(bytes > pieces * piece.length);
});

const chunked = (...chunks: readonly string[]) =>
  `POST /0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join('')}`;

test('a body in thousands of pieces is taken, and one in more ends the connection', async (t) => {
  const { exchange, handled, open } = await aServer(t, {}, (request, response) => {
    void text(request).then(
      (body) => response.end(`${request.url} ${body};`),
      () => response.destroy(),
    );
  });
  const piece = '1\r\nx\r\n';
  const whole = chunked(piece.repeat(4_000), '0\r\n\r\n');
  const got = await exchange(whole + get(1, 'Connection: close\r\n'));
  assert.deepEqual(statusesIn(got), [200, 200]);
  assert.match(got, new RegExp(`/0 ${'x'.repeat(4_000)};`));
  const endless = open();
  const ended = once(endless, 'close');
  endless.write(chunked(piece.repeat(5_000)));
  await ended;
  assert.deepEqual(handled, ['/0', '/1', '/0']);
});

test('so does what is left of the body of a request that was answered', async (t) => {
  const { open, handled } = await aServer(t, {}, (_, response) => response.writeHead(401).end());
  const socket = open();
  socket.write(chunked('1\r\nx\r\n'));
  assert.deepEqual(statusesIn(String(await once(socket, 'data'))), [401]);
  // Until now it may go on, and send its next request.
  socket.write(`${'1\r\nx\r\n'.repeat(4_000)}0\r\n\r\n${chunked('1\r\nx\r\n')}`);
  assert.deepEqual(statusesIn(String(await once(socket, 'data'))), [401]);
  const ended = once(socket, 'close');
  socket.write('1\r\nx\r\n'.repeat(5_000));
  await ended;
  assert.equal(handled.length, 2);
});

test('a connection that rests is kept while there are unread answers to make way', async (t) => {
  const longEnoughMs = 1_000;
  const { open, exchange, handled } = await aServer(
    t,
    { connectionsMax: 8 },
    (request, response) => {
      if (request.url === '/long') setTimeout(() => response.end('long'), longEnoughMs);
      else response.end(request.url === '/large' ? large : 'served');
    },
  );
  const resting = open();
  const ask = async () => {
    if (resting.destroyed) return 'closed';
    resting.write(get(''));
    return String(await Promise.race([once(resting, 'data'), once(resting, 'close')]));
  };
  assert.match(await ask(), /served/);
  // When this one is given, the others have not been taken for long.
  const long = exchange(get('long', 'Connection: close\r\n'));
  await until(() => handled.length === 2);
  for (let unread = 0; unread < 6; unread += 1) asksAndTakesNothing(open, get('large'));
  await until(() => handled.length === 8);
  assert.match(await long, /long/);
  open();
  for (let served = 0; served < 6; served += 1) {
    await until(async () => /served/.test(await exchange(get('', 'Connection: close\r\n'))));
  }
  assert.match(await ask(), /served/);
});

test('unread answers make way for whoever comes, and requests at work do not', async (t) => {
  const release = Promise.withResolvers<void>();
  const { open, exchange, handled } = await aServer(
    t,
    { connectionsMax: 4 },
    (request, response) => {
      if (request.url === '/work') void release.promise.then(() => response.end('done'));
      else if (request.url === '/large') response.end(large);
      else response.end('served');
    },
  );
  const worked = exchange(get('work', 'Connection: close\r\n'));
  await until(() => handled.length === 1);
  for (let unread = 0; unread < 3; unread += 1) asksAndTakesNothing(open, get('large'));
  await until(() => handled.length === 4);
  for (let served = 0; served < 10; served += 1) {
    await until(async () => /served/.test(await exchange(get('', 'Connection: close\r\n'))));
  }
  release.resolve();
  assert.match(await worked, /done/);
});
