import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createSecureContext, TLSSocket } from 'node:tls';
import { inspect, isDeepStrictEqual, promisify } from 'node:util';
import type { Cleanup } from './isolation.ts';

/** A way to a part that is there, which a test can close, stop and make forgetful. */
export type TestRelay = {
  /** The part's URL, by this way. */
  url: string;
  /** The part is gone: connections break and new ones are refused. */
  cut(): Promise<void>;
  /** The part stands still: connections are taken and stay open, and nothing is answered. */
  freeze(): void;
  /**
   * Lets so many answers through and none after that, until it is restored: all that is asked for
   * is done, and nobody gets the answer.
   */
  silence(answers: { after: number }): void;
  /** As it was before. */
  restore(): Promise<void>;
  /**
   * Lets so many answers through and loses the next one together with its connection: what was
   * asked for was done. `lost` resolves once that happened.
   */
  loseReply(answers: { after: number }): { lost: Promise<void> };
};

/** Opens a way of one test's own to a part that others use too, closed after the test. */
export async function createTestRelay(test: Cleanup, to: string): Promise<TestRelay> {
  const target = new URL(to);
  const sockets = new Set<Socket>();
  let frozen = false;
  // How many answers still pass.
  let passing = Infinity;
  let lose: (() => 'lose' | 'pass') | undefined;
  const server = createServer((inbound) => {
    const outbound = connect({ host: target.hostname, port: Number(target.port) });
    for (const [from, into] of [
      [inbound, outbound],
      [outbound, inbound],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => {
        if (frozen) return;
        if (from === inbound) into.write(chunk);
        else if (lose?.() === 'lose') inbound.destroy();
        else if (passing-- > 0) into.write(chunk);
      });
      from.on('error', () => into.destroy());
      from.on('close', () => (sockets.delete(from), into.destroy()));
    }
  });
  const end = () => sockets.forEach((socket) => socket.destroy());
  const port = await listen(server, 0);
  test.after(async () => {
    end();
    if (server.listening) server.close();
    return Promise.resolve();
  });

  const url = new URL(to);
  url.port = `${port}`;
  return {
    url: url.href,
    async cut() {
      const closed = once(server, 'close');
      server.close();
      end();
      await closed;
    },
    freeze: () => void (frozen = true),
    silence: ({ after }) => void (passing = after),
    async restore() {
      // What was swallowed is missing in the streams: both ends have to begin anew.
      if (frozen || passing <= 0) end();
      [frozen, passing] = [false, Infinity];
      if (!server.listening) await listen(server, port);
    },
    loseReply({ after }) {
      const lost = Promise.withResolvers<void>();
      let left = after;
      lose = () => {
        if (left-- > 0) return 'pass';
        lose = undefined;
        lost.resolve();
        return 'lose';
      };
      return { lost: lost.promise };
    },
  };
}

/**
 * A way to PostgreSQL that can lose, or keep for ever, what the server answers to a statement that
 * it has done.
 */
export type StatementRelay = {
  /** The database's URL, by this way. */
  url: string;
  /** Statements that were answered by now, BEGIN and COMMIT among them. */
  answered(): number;
  /**
   * Loses the answer to the nth statement from now, together with its connection: the server is
   * done with it, so a commit is durable, and no byte of the answer has come through.
   */
  loseAnswer(nth: number): { wasLost(): boolean };
  /**
   * Stands still behind the next statement whose text matches: the server is done with it and waits
   * for what comes next, and nothing passes on that connection any more. Resolves once that is so.
   */
  standStillBehind(statement: RegExp): Promise<void>;
};

type StandingStill = { statement: RegExp } & PromiseWithResolvers<void>;

/** Opens such a way for one test, closed after it. */
export async function createStatementRelay(test: Cleanup, to: string): Promise<StatementRelay> {
  const target = new URL(to);
  const sockets = new Set<Socket>();
  let answered = 0;
  let losing: { nth: number; isLost: boolean } | undefined;
  let still: StandingStill | undefined;
  const onAnswer = (): 'pass' | 'lose' => {
    answered += 1;
    if (losing?.nth !== answered) return 'pass';
    losing.isLost = true;
    return 'lose';
  };
  const server = createServer((inbound) => {
    const outbound = connect({ host: target.hostname, port: Number(target.port) });
    let here: StandingStill | undefined;
    const answers = wholeAnswers(() => {
      here?.resolve();
      return onAnswer();
    });
    inbound.on('data', (chunk) => {
      if (here !== undefined) return;
      if (still?.statement.test(chunk.toString('latin1')) === true) {
        here = still;
        still = undefined;
      }
      outbound.write(chunk);
    });
    outbound.on('data', (chunk) => {
      const through = answers(chunk);
      if (through === 'lost') inbound.destroy();
      else if (here === undefined) inbound.write(through);
    });
    for (const [socket, other] of [
      [inbound, outbound],
      [outbound, inbound],
    ] as const) {
      sockets.add(socket);
      // The end of a connection is what is tried here.
      socket.on('error', () => other.destroy());
      // Who stands still does not hear that the server has ended its session.
      socket.on('close', () => {
        sockets.delete(socket);
        if (here === undefined || socket === inbound) other.destroy();
      });
    }
  });
  const port = await listen(server, 0);
  test.after(async () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
    return Promise.resolve();
  });
  const url = new URL(to);
  url.host = `127.0.0.1:${port}`;
  return {
    url: url.href,
    answered: () => answered,
    loseAnswer: (nth) => {
      const fault = { nth: answered + nth, isLost: false };
      losing = fault;
      return { wasLost: () => fault.isLost };
    },
    standStillBehind: (statement) => {
      still = { statement, ...Promise.withResolvers<void>() };
      return still.promise;
    },
  };
}

const readyForQuery = 'Z'.charCodeAt(0);
const [typeBytes, lengthBytes] = [1, 4];

/**
 * Reads what the server sends on one connection and gives on what may pass: each answer once it is
 * whole, which ReadyForQuery ends (PostgreSQL manual, "Message Formats"). The server has committed
 * by then. The greeting ends with one too, and so does the look at its limits that a pool takes
 * before it uses a connection: they pass as they come, and count as no statement of anybody's.
 */
function wholeAnswers(onAnswer: () => 'pass' | 'lose'): (chunk: Buffer) => Buffer | 'lost' {
  let greetings = 2;
  let [held, unread] = [Buffer.alloc(0), Buffer.alloc(0)];
  return (chunk) => {
    unread = Buffer.concat([unread, chunk]);
    let through = Buffer.alloc(0);
    while (unread.length >= typeBytes + lengthBytes) {
      const size = typeBytes + unread.readInt32BE(typeBytes);
      if (unread.length < size) break;
      held = Buffer.concat([held, unread.subarray(0, size)]);
      const isEnd = unread[0] === readyForQuery;
      unread = unread.subarray(size);
      const isGreeting = greetings > 0;
      if (isEnd && isGreeting) greetings -= 1;
      if (isEnd && !isGreeting && onAnswer() === 'lose') return 'lost';
      if (!isEnd && !isGreeting) continue;
      through = Buffer.concat([through, held]);
      held = Buffer.alloc(0);
    }
    return through;
  };
}

/** A store whose answers can be lost, beside whatever a test needs of it. */
type ByRelay = { relay: StatementRelay };

/** An operation of a port, tried with its answers lost. */
export type LostAnswerCase<Store> = {
  /**
   * Makes what the operation needs. `stored` reads what the store has afterwards, without what a
   * repetition may change, such as a version.
   */
  prepare(store: Store): Promise<{ operation(): Promise<unknown>; stored(): Promise<unknown> }>;
  /** What else it may come to when it is called again after it was done. */
  orElse?: readonly unknown[];
  /** The statement that it does without: it comes out right where that one's answer is lost. */
  doesWithout?: number;
};

/**
 * Tests each operation with the answer lost to each of its statements, every time on a fresh store,
 * and calls it again as its caller would: it must come to what it comes to without the fault, or to
 * one of `orElse`, and the store must have the same.
 */
export function testLostAnswers<Store extends ByRelay>(
  cases: Readonly<Record<string, LostAnswerCase<Store>>>,
  open: (context: TestContext) => Promise<Store>,
): void {
  for (const [name, { prepare, orElse = [], doesWithout }] of Object.entries(cases)) {
    test(`${name} comes out right when it is called again after a lost answer`, async (context) => {
      let statements = 0;
      let wanted: { outcome: unknown; stored: unknown } | undefined;
      await context.test('no answer is lost', async (each) => {
        const store = await open(each);
        const { operation, stored } = await prepare(store);
        const before = store.relay.answered();
        const outcome = await operation();
        statements = store.relay.answered() - before;
        wanted = { outcome, stored: await stored() };
      });
      assert.ok(statements > 0, 'it sends no statement by the relay');
      for (let nth = 1; nth <= statements; nth += 1) {
        await context.test(
          `the answer to statement ${nth} of ${statements} is lost`,
          async (each) => {
            const store = await open(each);
            const { operation, stored } = await prepare(store);
            const fault = store.relay.loseAnswer(nth);
            if (nth === doesWithout) assert.deepEqual(await operation(), wanted!.outcome);
            else await assert.rejects(operation(), 'nobody can say what it came to');
            assert.ok(fault.wasLost(), 'the fault did not fire');
            const again = await operation();
            const allowed = [wanted!.outcome, ...orElse];
            const isRight = allowed.some((each) => isDeepStrictEqual(each, again));
            const told = `it came to ${inspect(again)} instead of ${inspect(wanted!.outcome)}`;
            assert.ok(isRight, told);
            assert.deepEqual(await stored(), wanted!.stored);
          },
        );
      }
    });
  }
}

/**
 * Opens a way by TLS to a PostgreSQL, which proves to be `name` and nobody else. Before TLS begins,
 * a client asks for it by eight bytes and is told S (PostgreSQL manual, 54.2.11); who asks for
 * nothing is hung up on.
 */
export async function createPostgresTlsWay(
  test: Cleanup,
  { to, name }: { to: string; name: string },
): Promise<{ certificateFile: string; port: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-tls-'));
  test.after(async () => rmSync(folder, { recursive: true, force: true }));
  const [storeFile, certificateFile] = [join(folder, 'key.p12'), join(folder, 'certificate.pem')];
  const passphrase = 'password';
  const store = ['-alias', 'server', '-keystore', storeFile, '-storepass', passphrase];
  const named = ['-dname', `CN=${name}`, '-ext', `san=dns:${name}`, '-ext', 'bc=ca:true'];
  const keytool = promisify(execFile);
  const key = ['-keyalg', 'EC', '-storetype', 'PKCS12', '-validity', '2'];
  await keytool('keytool', ['-genkeypair', ...key, ...named, ...store]);
  await keytool('keytool', ['-exportcert', '-rfc', '-file', certificateFile, ...store]);
  const secureContext = createSecureContext({ pfx: readFileSync(storeFile), passphrase });
  const target = new URL(to);
  const server = createServer((inbound) => {
    inbound.on('error', () => inbound.destroy());
    inbound.once('data', (asked) => {
      if (asked.length !== 8 || asked.readInt32BE(4) !== 80_877_103) {
        inbound.destroy();
        return;
      }
      inbound.write('S');
      const secured = new TLSSocket(inbound, { isServer: true, secureContext });
      const outbound = connect(Number(target.port), target.hostname);
      secured.pipe(outbound).pipe(secured);
      for (const one of [secured, outbound]) {
        one.on('error', () => one.destroy());
        one.on('close', () => [secured, outbound].forEach((each) => each.destroy()));
      }
    });
  });
  test.after(async () => void server.close());
  return { certificateFile, port: await listen(server, 0) };
}

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
