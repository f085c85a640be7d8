import type { WorkspaceFile } from '../workspace-files.ts';
import { isSource, type Fetched, versionIn } from './programs.ts';

/**
 * Every image that the workspace takes from others, by compose, a Dockerfile or a test's engine.
 */
export function imagesOf(files: readonly WorkspaceFile[]): Fetched[] {
  const named = files.flatMap(({ path, text }) => [...(formFor(path)?.(text()) ?? [])]);
  const images = [...new Set(named)].map((image) => {
    const [, name = image, version = ''] = /^(.*?)(?::([^:/]*))?$/.exec(image) ?? [];
    return { source: 'image' as const, name, version };
  });
  return images.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** How a file names images: each kind has its own way. */
function formFor(path: string): ((text: string) => string[]) | undefined {
  if (/\.ya?ml$/.test(path)) return imagesOfCompose;
  if (/(^|\/)Dockerfile[^/]*$/.test(path)) return imagesOfDockerfile;
  return isSource(path) ? imagesOfSource : undefined;
}

/** `image: a:1`, or by a variable with a default; not those that are built here. */
function imagesOfCompose(text: string): string[] {
  return [...text.matchAll(/^\s*(?:- )?image: *['"]?(\S+?)['"]? *(?:#.*)?$/gm)]
    .map(([, image]) => image!.replace(/^\$\{\w+:-(.*)\}$/, '$1'))
    .filter((image) => !image.startsWith('triplock/'));
}

/** `FROM a:1`; not those of an earlier stage. */
function imagesOfDockerfile(text: string): string[] {
  const stages = [...text.matchAll(/^FROM \S+ AS (\S+)/gim)].map(([, stage]) => stage);
  return [...text.matchAll(/^FROM (?:--\S+ )*(\S+)/gim)]
    .map(([, image]) => image!)
    .filter((image) => !stages.includes(image));
}

/**
 * Constants and properties that are called image, or are of an object that is called images. The
 * version may be one of the same file's constants.
 */
function imagesOfSource(text: string): string[] {
  const single = /\b\w*[iI]mage\b(?:: string)? *[=:] *['"`]([^'"`\n]+:[^'"`\n]+)['"`]/g;
  const several = /\b\w*[iI]mages\b[^=\n]*= *\{([^}]*)\}/g;
  const version = versionIn(text);
  const inSeveral = [...text.matchAll(several)].flatMap(([, body]) =>
    [...body!.matchAll(/: *['"`]([^'"`]+)['"`]/g)].map(([, image]) => image!),
  );
  const singly = [...text.matchAll(single)].map(([, image]) => image!);
  return [...singly, ...inSeveral].map((image) => image.replace('${version}', version));
}
