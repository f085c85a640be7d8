// Before everything else: makes the credentials of this installation, unless they are there.
import { existsSync, writeFileSync } from 'node:fs';
import { credentialsIn } from '../credentials.ts';
import { credentialFiles } from './places.ts';
import { runStep } from './run-step.ts';

await runStep('credentials', async (report) => {
  const { all, postgresPassword: file } = credentialFiles;
  const { postgresPassword } = credentialsIn(all);
  if (existsSync(file)) return report('the credentials are there');
  // Read by PostgreSQL's own user; only its container and those of these steps mount the folder.
  writeFileSync(file, postgresPassword, { mode: 0o444 });
  report('made the credentials of this installation');
});
