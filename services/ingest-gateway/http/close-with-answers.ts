import type { FastifyInstance } from 'fastify';

/**
 * From the moment the server closes, every answer also ends its connection, those to requests that
 * came before included. Otherwise a client that keeps its connection open would hold up the
 * shutdown, and could send its next request just as the process ends.
 */
export function closeWithAnswers(app: FastifyInstance): void {
  let closing = false;
  app.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
}
