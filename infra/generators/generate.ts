import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runCommand } from '@triplock/launcher';
import { staleFiles } from './generated.ts';

const root = resolve(import.meta.dirname, '../..');

const help = `
npm run generate

Writes what is made from other files of this repository: the parts of docker-compose.yml, of
Prometheus' files and of the Dockerfile that follow from the services' declarations, the dashboards
of Grafana, and the OpenAPI documents. Run it after a change of what they are made from.

  --help
`;

await runCommand({
  name: 'generate',
  help,
  options: {},
  run: async () => {
    const stale = await staleFiles();
    for (const { path, text } of stale) {
      writeFileSync(join(root, path), text);
      process.stdout.write(`wrote ${path}\n`);
    }
    // Some are made of others by the code that they are: what was just written is read anew.
    if (stale.some(({ path }) => path.endsWith('.ts'))) {
      execFileSync(process.execPath, process.argv.slice(1), { stdio: 'inherit' });
      return;
    }
    if (stale.length === 0) process.stdout.write('everything is as its sources say\n');
  },
});
