// A service that does nothing but answer its health checks, with where it has its temporary files,
// for the launcher's own tests.
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';

const port = process.env['ADMIN_PORT'] ?? process.env['CATCHER_PORT'];
if (process.env['STAND_IN'] === 'refuses to start') {
  process.stderr.write('the stand-in refuses to start\n');
  process.exit(3);
}
const status = process.env['STAND_IN'] === 'is never ready' ? 503 : 200;
createServer((_request, response) => response.writeHead(status).end(tmpdir())).listen({
  port: Number(port),
  host: '127.0.0.1',
});
