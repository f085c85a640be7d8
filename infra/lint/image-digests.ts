import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import type { Fetched } from './licences/programs.ts';
import { imagesOf } from './licences/images.ts';
import { root, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

// A tag names a version, and whoever owns the repository can put another image under it: a digest
// is of the bytes. Digests are a registry's to tell, so they are kept by a command, where one
// answers.

/** In no git: a digest is of the registry that was asked. */
const overrideFile = '.triplock/docker-compose.digests.yml';

const help = `npx node infra/lint/image-digests.ts [list | write | compare] [--file FILE]

Knows every image that others make: of docker-compose.yml, of infra/images/Dockerfile and of tests.

  list     prints them, one a line (by itself)
  write    asks their registries for the digests, by docker buildx, and writes
           ${overrideFile}, which has compose take and build from those bytes alone:
           docker compose -f docker-compose.yml -f ${overrideFile} up --build --wait
  compare  asks again, and names each tag that is another image by now

  --file  another file than that

Exit code 0 all is as it was, 1 a tag has moved, 2 a registry did not answer: nothing is written.
`;

/** An image's name with its tag. */
const named = ({ name, version }: Fetched) => `${name}:${version}`;

/**
 * Images whose tag names no one version, so that another may be under it tomorrow: it has three
 * numbers, of PostgreSQL, which has no third, two.
 */
export function findFloating(images: readonly Fetched[]): string[] {
  return images
    .filter(({ name, version }) => {
      const numbers = /^v?(\d+(?:\.\d+)*)(?:-[\w.-]+)?$/.exec(version)?.[1]?.split('.') ?? [];
      return numbers.length < (name === 'postgres' ? 2 : 3);
    })
    .map((image) => `${named(image)} is no exact version`);
}

/** Every image of others. */
export function thirdPartyImages(files: readonly WorkspaceFile[] = workspaceFiles()): Fetched[] {
  return imagesOf(files);
}

/** What a registry says is under a tag. */
type Asked = { image: string } & (
  { outcome: 'told'; digest: string } | { outcome: 'no-answer'; why: string }
);

function digestOf(image: string): Asked {
  const words = ['buildx', 'imagetools', 'inspect', '--format', '{{.Manifest.Digest}}', image];
  const asked = spawnSync('docker', words, { encoding: 'utf8', timeout: 60_000 });
  const digest = /^sha256:[0-9a-f]{64}$/m.exec(asked.stdout ?? '')?.[0];
  if (asked.status === 0 && digest !== undefined) return { image, outcome: 'told', digest };
  const why = asked.error?.message ?? asked.stderr.trim().split('\n').at(-1) ?? '';
  return { image, outcome: 'no-answer', why };
}

/** The services of a compose file, with the image that each takes or is built from. */
function servicesOf(compose: string): { service: string; image: string; isBuilt: boolean }[] {
  const [, services = ''] = /^services:\n([^]*?)(?=^\S|(?![^]))/m.exec(compose) ?? [];
  return services.split(/^(?= {2}[\w-]+:$)/m).flatMap((text) => {
    const [, service] = /^ {2}([\w-]+):$/m.exec(text) ?? [];
    const [, image] = /^ {4}image: (\S+)$/m.exec(text) ?? [];
    if (service === undefined || image === undefined) return [];
    return [{ service, image, isBuilt: /^ {4}build:/m.test(text) }];
  });
}

/** What has compose take nothing but these bytes. */
export function overrideOf(
  { compose, dockerfile }: { compose: string; dockerfile: string },
  digests: ReadonlyMap<string, string>,
): string {
  const pinned = (image: string) => `${image}@${digests.get(image)}`;
  const bases = imagesOf([{ path: 'Dockerfile', text: () => dockerfile }]).map(named);
  const lines = servicesOf(compose).flatMap(({ service, image, isBuilt }) => {
    if (isBuilt) {
      const contexts = bases.map((base) => `        ${base}: docker-image://${pinned(base)}`);
      return [`  ${service}:`, '    build:', '      additional_contexts:', ...contexts];
    }
    const [, start = '', tag = image, end = ''] = /^(\$\{\w+:-)?(.*?)(\})?$/.exec(image) ?? [];
    return [`  ${service}:`, `    image: ${start}${pinned(tag)}${end}`];
  });
  const head = '# Written by infra/lint/image-digests.ts: what stood under each tag then.';
  return [head, 'services:', ...lines, ''].join('\n');
}

/** What the override has, by tag. */
function digestsIn(override: string): Map<string, string> {
  const found = override.matchAll(/([\w./-]+:[\w.-]+)@(sha256:[0-9a-f]{64})/g);
  return new Map([...found].map(([, image, digest]) => [image!, digest!]));
}

/** Asks for all; gives nothing where one is not told. */
function askFor(images: readonly string[]): Map<string, string> | undefined {
  const asked = images.map(digestOf);
  const untold = asked.filter(({ outcome }) => outcome === 'no-answer');
  for (const each of untold) {
    console.error(`${each.image}: its registry did not answer: ${'why' in each ? each.why : ''}`);
  }
  if (untold.length > 0) return undefined;
  return new Map(asked.flatMap((each) => ('digest' in each ? [[each.image, each.digest]] : [])));
}

function write(file: string): number {
  const sources = {
    compose: readFileSync(`${root}docker-compose.yml`, 'utf8'),
    dockerfile: readFileSync(`${root}infra/images/Dockerfile`, 'utf8'),
  };
  const digests = askFor(thirdPartyImages().map(named));
  if (digests === undefined) return 2;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, overrideOf(sources, digests));
  console.log(`${file}: the digests of ${digests.size} images`);
  return 0;
}

function compare(file: string): number {
  if (!existsSync(file)) {
    console.error(`there is no ${file} to compare with: write it first`);
    return 2;
  }
  const kept = digestsIn(readFileSync(file, 'utf8'));
  const now = askFor([...kept.keys()]);
  if (now === undefined) return 2;
  const moved = [...kept].filter(([image, digest]) => now.get(image) !== digest);
  for (const [image, digest] of moved) {
    console.log(`${image} was ${digest} and is ${now.get(image)}`);
  }
  console.log(`${kept.size} images compared, ${moved.length} moved`);
  return moved.length === 0 ? 0 : 1;
}

if (import.meta.main) {
  const options = { help: { type: 'boolean' }, file: { type: 'string' } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [verb = 'list', ...more] = positionals;
  const verbs: Readonly<Record<string, (file: string) => number>> = {
    list: () => {
      for (const image of thirdPartyImages()) console.log(named(image));
      return 0;
    },
    write,
    compare,
  };
  if (values.help) console.log(help);
  else if (more.length > 0 || !Object.hasOwn(verbs, verb)) {
    console.error(help);
    process.exitCode = 2;
  } else process.exitCode = verbs[verb]!(values.file ?? root + overrideFile);
}
