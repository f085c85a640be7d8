import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { findOnPath, resolved } from './find-program.ts';

/** Where a path exists within the SDK that `gcloud` belongs to, or within one in a usual place. */
export function inGcloudSdk(...path: string[]): string[] {
  const gcloud = findOnPath('gcloud');
  const roots = [
    process.env['CLOUDSDK_ROOT'],
    gcloud && dirname(dirname(resolved(gcloud))),
    '/usr/lib/google-cloud-sdk',
    '/usr/share/google-cloud-sdk',
    '/opt/google-cloud-sdk',
    '/snap/google-cloud-cli/current',
    '/opt/homebrew/share/google-cloud-sdk',
    join(homedir(), 'google-cloud-sdk'),
  ];
  return roots.flatMap((root) => (root ? [join(root, ...path)] : [])).filter(existsSync);
}
