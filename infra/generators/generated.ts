import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { describeGateway } from '@triplock/ingest-gateway/generated';
import { dashboardFiles } from '@triplock/observability';
import { describeConsole } from '@triplock/console/generated';
import { filesOfKinds } from './files-of-kinds.ts';
import { filesOfServices } from './files-of-services.ts';
import { filesOfStores } from './files-of-stores.ts';
import { type GeneratedFile, root } from './marked-parts.ts';

/** Every file that is generated, or of which a part is, as it is to be. */
export async function generatedFiles(): Promise<GeneratedFile[]> {
  return [
    ...(await Promise.all(
      [...filesOfServices(), ...filesOfStores(), ...filesOfKinds()].map(formatted),
    )),
    ...dashboardFiles().map(({ path, text }) => ({ path: relative(root, path), text })),
    { path: 'docs/openapi.json', text: await describeGateway() },
    { path: 'docs/console-openapi.json', text: await describeConsole() },
  ];
}

/** Code and tables as they are written here. */
export async function formatted({ path, text }: GeneratedFile): Promise<GeneratedFile> {
  if (!/\.(ts|mjs|md)$/.test(path)) return { path, text };
  const filepath = join(root, path);
  return { path, text: await format(text, { ...(await resolveConfig(filepath)), filepath }) };
}

/** Those of them that are not as they are to be: old, edited by hand, or missing. */
export async function staleFiles(): Promise<GeneratedFile[]> {
  const files = await generatedFiles();
  return files.filter(({ path, text }) => {
    const file = join(root, path);
    return !existsSync(file) || readFileSync(file, 'utf8') !== text;
  });
}
