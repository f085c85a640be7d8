import { mkdirSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { refusedPage } from '@triplock/runtime';
import dynalite from 'dynalite';
import { readConfig } from './config.ts';

// A process that speaks DynamoDB's wire and keeps its tables in a folder; README.md tells the rest.

const {
  DYNAMODB_SERVER_HOST: host,
  DYNAMODB_SERVER_PORT: listenOn,
  DYNAMODB_SERVER_FOLDER: path,
} = readConfig();

mkdirSync(path, { recursive: true, mode: 0o700 });
// A table's state between is kept with the table, and a table that a kill leaves in one stays
// there: so it is left as soon as can be. What is acknowledged is in LevelDB's log, so a signal may
// end it.
const server = dynalite({ path, createTableMs: 0, deleteTableMs: 0 });
// It answers to any Host, and tells every origin that it may read what it says: whatever page
// somebody has open in a browser of this machine could take and write claims. Programs of this
// machine and of its containers alone have business here, at whatever address it listens.
const [answer] = server.listeners('request') as [RequestListener];
server.removeListener('request', answer);
server.on('request', (request, response) => {
  const refused = refusedPage(request, { callers: 'of this machine' });
  if (refused === undefined) return answer.call(server, request, response);
  response.writeHead(403, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ message: refused }));
});
// Its own listener throws when a client goes before its request is whole, and the process would end
// with it. Nobody waits for that answer.
server.on('request', (request) => request.removeAllListeners('error').on('error', () => undefined));
// Its client keeps connections and sends again on none that breaks at its first byte, so none is
// ended for having rested: 5 s, as is usual, are short on a busy machine.
server.keepAliveTimeout = 0;
server.listen(listenOn, host, () => {
  process.stdout.write(`dynalite answers at http://${host}:${listenOn}\n`);
});
