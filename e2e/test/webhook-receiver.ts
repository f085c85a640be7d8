import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A webhook as it came, headers and bytes. */
type ReceivedWebhook = { id: string; timestamp: string; signatures: string[]; body: string };

/** How a receiver answers each webhook. */
type ReceiverAnswer = { status: number; headers?: Record<string, string>; body?: string };

/** A partner's own server for webhooks. */
export type WebhookReceiver = {
  url: string;
  /** From now on; 204 unless told. It may depend on how many came by now. */
  answer: ReceiverAnswer | ((received: number) => ReceiverAnswer);
  received: ReceivedWebhook[];
  close(): Promise<void>;
};

const loopback = '127.0.0.1';

/**
 * Listens on a port of its own on this machine, which its senders call `machine`: on 127.0.0.1,
 * where webhooks may go in demo mode only, or where containers reach it.
 */
export async function openWebhookReceiver(machine = loopback): Promise<WebhookReceiver> {
  const received: ReceivedWebhook[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const header = (name: string) => String(request.headers[name]);
      received.push({
        id: header('webhook-id'),
        timestamp: header('webhook-timestamp'),
        signatures: header('webhook-signature').split(' '),
        body,
      });
      const { answer } = receiver;
      const {
        status,
        headers,
        body: told,
      } = typeof answer === 'function' ? answer(received.length) : answer;
      response.writeHead(status, headers).end(told);
    });
  });
  server.listen(0, machine === loopback ? loopback : '0.0.0.0');
  await once(server, 'listening');
  const receiver: WebhookReceiver = {
    answer: { status: 204 },
    url: `http://${machine}:${(server.address() as AddressInfo).port}/hooks`,
    received,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return receiver;
}

/**
 * Whether a secret signed the webhook, by the text of Standard Webhooks 1.0 and not by a library
 * that the sender uses as well.
 */
export function isSignedBy(secret: string, webhook: ReceivedWebhook): boolean {
  const { id, timestamp, signatures, body } = webhook;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return signatures.includes(`v1,${mac}`);
}
