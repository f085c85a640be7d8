import { connect, type Socket } from 'node:net';

/** An answer as it came off the wire; header names in lower case. */
export type RawAnswer = { status: number; headers: Record<string, string>; body: string };

/** One TCP connection that says exactly what a test wants it to say. */
export type RawConnection = {
  send(bytes: string | Buffer): void;
  /** The next answer, 100 included; rejects when the connection ends before it is whole. */
  answer(): Promise<RawAnswer>;
  /** Resolves when the server ended the connection, with what came that was no answer. */
  ended: Promise<string>;
  destroy(): void;
};

/** Opens a connection to a server on 127.0.0.1. */
export function connectRaw(port: number): RawConnection {
  const socket = connect({ port, host: '127.0.0.1' });
  // What is written to a server that has already answered and closed is lost, and meant to be.
  socket.on('error', () => undefined);
  const inbox = receive(socket);
  return {
    send: (bytes) => void socket.write(bytes),
    answer: async () => {
      for (;;) {
        const answer = takeAnswer(inbox);
        if (answer) return answer;
        if (inbox.ended) throw new Error(`the connection ended after ${inbox.text.length} bytes`);
        await inbox.change();
      }
    },
    ended: new Promise((resolve) => socket.once('close', () => resolve(inbox.text))),
    destroy: () => void socket.destroy(),
  };
}

type Inbox = { text: string; ended: boolean; change(): Promise<void> };

function receive(socket: Socket): Inbox {
  let wake = Promise.withResolvers<void>();
  const inbox: Inbox = { text: '', ended: false, change: () => wake.promise };
  const announce = () => {
    wake.resolve();
    wake = Promise.withResolvers();
  };
  socket.on('data', (chunk) => {
    inbox.text += chunk.toString('latin1');
    announce();
  });
  socket.once('close', () => {
    inbox.ended = true;
    announce();
  });
  return inbox;
}

/** Takes one whole answer off the inbox; its body is as long as `content-length` says. */
function takeAnswer(inbox: Inbox): RawAnswer | undefined {
  const headEnd = inbox.text.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [statusLine, ...lines] = inbox.text.slice(0, headEnd).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => {
      const [name, ...value] = line.split(':');
      return [name!.toLowerCase(), value.join(':').trim()];
    }),
  );
  const bodyStart = headEnd + 4;
  const bodyEnd = bodyStart + Number(headers['content-length'] ?? 0);
  if (inbox.text.length < bodyEnd) return undefined;
  const body = Buffer.from(inbox.text.slice(bodyStart, bodyEnd), 'latin1').toString('utf8');
  inbox.text = inbox.text.slice(bodyEnd);
  return { status: Number(statusLine!.split(' ')[1]), headers, body };
}
