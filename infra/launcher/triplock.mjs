// The first file of every npm script. It and what it imports at once are in JavaScript of long ago,
// so that a Node which is too old can say so.
import { commands, operators } from './commands.mjs';

const oldestNode = 20;
const root = decodeURIComponent(new URL('../..', import.meta.url).pathname);
const [name, ...args] = process.argv.slice(2);
const isTooOld = Number(process.versions.node.split('.')[0]) < oldestNode;

if (isTooOld) {
  const node = `Node ${process.versions.node} is too old: install Node 24 or newer (${oldestNode} to 23 fetch it)`;
  const how = 'Linux: https://nodejs.org/en/download; macOS: brew install node';
  // An even older one cannot read this, and then Node is all that is named.
  import('./look-first.mjs')
    .then(({ lookFirst }) => lookFirst({ name, args, root }))
    .catch(() => undefined)
    .then((lacking) => {
      process.stderr.write(`triplock: ${node}; ${how}\n${lacking ? `${lacking}\n` : ''}`);
      process.exitCode = 1;
    });
} else {
  import('./launch.mjs').then(({ launch }) => launch({ commands, operators, root, name, args }));
}
