import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Outgoing } from '../engine/perform-operation.ts';
import { apiVersion } from '../wire/api-version.ts';

/** A caller that waits for ever is let go after this long. */
const heldForMs = 120_000;
const slowerByMs = 1_000;

type Exchange = { readonly request: FastifyRequest; readonly reply: FastifyReply };

/** Sends the answer as it is, or as the fault will have it. */
export async function sendAnswer(exchange: Exchange, outgoing: Outgoing): Promise<FastifyReply> {
  const { fault } = outgoing;
  switch (fault?.fault) {
    case 'reset':
    case 'reset-after':
      return reset(exchange);
    case 'time-out':
      await hold(exchange, fault.delayMs ?? heldForMs);
      return reset(exchange);
    case 'half-body':
      return sendHalf(exchange, outgoing);
    case 'slow':
      await hold(exchange, fault.delayMs ?? slowerByMs);
      return send(exchange, outgoing);
    case 'rate-limit':
    case 'unavailable':
    case 'lock-timeout':
    case 'hold':
    case 'error':
    case 'error-after':
    case undefined:
      return send(exchange, outgoing);
  }
}

function send({ request, reply }: Exchange, outgoing: Outgoing): FastifyReply {
  const { status, body } = outgoing.answer;
  return reply.code(status).headers(headersOf(request, outgoing)).send(body);
}

/** Announces the whole body, sends half of it, and is gone. */
function sendHalf({ request, reply }: Exchange, outgoing: Outgoing): FastifyReply {
  const body = Buffer.from(outgoing.answer.body);
  const headers = { ...headersOf(request, outgoing), 'content-length': body.length };
  reply.hijack();
  reply.raw.writeHead(outgoing.answer.status, headers);
  reply.raw.write(body.subarray(0, body.length >> 1), () => request.raw.socket.destroy());
  return reply;
}

/** An RST and not a FIN: the caller sees ECONNRESET. */
function reset({ request, reply }: Exchange): FastifyReply {
  reply.hijack();
  request.raw.socket.resetAndDestroy();
  return reply;
}

/** Waits, and no longer than the caller does. */
async function hold({ request }: Exchange, ms: number): Promise<void> {
  const gone = new AbortController();
  const { socket } = request.raw;
  const abort = () => gone.abort();
  socket.once('close', abort);
  try {
    await delay(ms, undefined, { signal: gone.signal, ref: false });
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  } finally {
    socket.off('close', abort);
  }
}

function headersOf(request: FastifyRequest, { answer, requestId }: Outgoing) {
  const key = request.headers['idempotency-key']?.toString();
  return {
    'content-type': 'application/json',
    'request-id': requestId,
    'stripe-version': apiVersion,
    ...(key !== undefined && request.method === 'POST' && { 'idempotency-key': key }),
    ...(answer.retry && { 'stripe-should-retry': answer.retry === 'yes' ? 'true' : 'false' }),
    ...answer.headers,
  };
}
