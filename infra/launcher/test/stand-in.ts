// A service that does nothing but answer its health checks, with where it has its temporary files,
// and end at a crash point that is asked for, for the launcher's own tests.
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';

const port = process.env['ADMIN_PORT'] ?? process.env['CATCHER_PORT'];
if (process.env['STAND_IN'] === 'refuses to start') {
  process.stderr.write('the stand-in refuses to start\n');
  process.exit(3);
}
const status = process.env['STAND_IN'] === 'is never ready' ? 503 : 200;
createServer(({ url }, response) => {
  if (url === '/crash-point') return void endAtCrashPoint();
  response.writeHead(status).end(tmpdir());
}).listen({ port: Number(port), host: '127.0.0.1' });

async function endAtCrashPoint(): Promise<void> {
  const { createCrashPoints } = await import('@triplock/runtime');
  const name = 'stand-in.asked';
  await createCrashPoints([{ name, action: { do: 'kill' } }]).reached(name);
}
