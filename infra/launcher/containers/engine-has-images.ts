import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cloneFolder } from '../home.ts';
import { docker } from './engine.ts';

/**
 * Images that the engine lacks, of those that the system in containers stands on or is made from.
 */
export async function missingImages(): Promise<string[]> {
  const needed = new Set([...(await imagesOfParts()), ...imagesOfDockerfile()]);
  const listed = await docker('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}');
  const there = new Set(listed.split('\n'));
  return [...needed].filter((image) => !there.has(image));
}

/** Those that are not built here; profiles bring what nobody asked for. */
async function imagesOfParts(): Promise<string[]> {
  const file = join(cloneFolder, 'docker-compose.yml');
  const images = await docker('compose', '-f', file, 'config', '--images');
  return images.split('\n').filter((image) => !image.startsWith('triplock'));
}

function imagesOfDockerfile(): string[] {
  const text = readFileSync(join(cloneFolder, 'infra/images/Dockerfile'), 'utf8');
  return [...text.matchAll(/^FROM (\S+:\S+)/gm)].map(([, image]) => image!);
}
