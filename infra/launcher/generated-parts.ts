import type { ProgramInSdk, ProgramOfNpm } from '@triplock/runtime';
import { claimStores, ledgerStores, partsForStores } from './choices.ts';
import { type DeclaredPart, declaredParts, heapOf, workspaceOf } from './parts/store-parts.ts';

// What is written of the servers that stores bring along in files that cannot ask for it.

/** Their containers in docker-compose.yml. */
export function composeParts(): string[] {
  return declaredParts.flatMap((part, index) => {
    const { name, program, port, container } = part;
    const { memoryMiB, ready, lacks } = container;
    const published = `127.0.0.1:\${${port.variable}:-${port.usual}}:${container.port}`;
    const healthcheck = `{ <<: *looks, test: [CMD, /app/ask-ready.sh, '${container.port}', ${ready}] }`;
    return [
      ...(index > 0 ? [''] : []),
      ...(lacks.healthCheck ? [`# Nothing asks whether it is ready: ${lacks.healthCheck}.`] : []),
      `${name}:`,
      `  <<: *${container.image ? 'part' : 'ours'}`,
      `  profiles: [${name}]`,
      ...(program.from === 'npm' ? imageOfOurs(part, program) : imageOfOthers(part)),
      `  mem_limit: ${memoryMiB}m`,
      `  ports: ['${published}']`,
      ...(program.from === 'npm' ? placeOf(part, program) : []),
      ...(ready === undefined ? [] : [`  healthcheck: ${healthcheck}`]),
    ];
  });
}

function imageOfOthers({ name, container: { image } }: DeclaredPart): string[] {
  if (image === undefined) throw new Error(`${name} has no image: name one in its part.ts`);
  const words = image.command.map((word) => (/^[\w./-]+$/.test(word) ? word : `'${word}'`));
  return [`  image: \${${image.variable}:-${image.name}}`, `  command: [${words.join(', ')}]`];
}

function imageOfOurs(part: DeclaredPart, program: ProgramOfNpm): string[] {
  return [
    `  image: triplock/${part.name}-${program.workspace}`,
    `  build: { <<: *image, args: { WORKSPACE: ${workspaceOf(part, program)} } }`,
    `  command: [node, ${heapOf(program).join(', ')}, main.ts]`,
  ];
}

function placeOf({ name, container: { port } }: DeclaredPart, program: ProgramOfNpm): string[] {
  const settings = program.settings({ host: '0.0.0.0', port, folder: '/data' });
  return [
    `  volumes: ['${name}:/data']`,
    '  environment:',
    ...Object.entries(settings).map(([setting, value]) => `    ${setting}: ${value}`),
  ];
}

/** Their volumes. */
export function volumesOfParts(): string[] {
  return declaredParts.flatMap(({ name, program }) => (program.from === 'npm' ? `${name}:` : []));
}

/** What look-first.mjs looks for, as its source: it runs where no package is installed. */
export function partsToLookFor(): string[] {
  return declaredParts.map((part) => {
    const { name, title, given, program } = part;
    const isAmong = (parts: readonly string[]) => parts.includes(name);
    const whole = {
      name,
      title: program.from === 'gcloud SDK' ? `the ${title}` : title,
      ...given,
      // Where claims or the ledger are kept in one of these it is needed.
      claims: claimStores.filter((claims) => isAmong(partsForStores({ claims }))),
      ledger: ledgerStores.filter((ledger) => isAmong(partsForStores({ ledger }))),
      ...(program.from === 'gcloud SDK' && { program: lookedFor(part, program) }),
    };
    return `${JSON.stringify(whole)},`;
  });
}

function lookedFor({ title }: DeclaredPart, program: ProgramInSdk) {
  const { file, only, component, debian } = program;
  const install = `gcloud components install ${component} (of the apt packages: apt install ${debian})`;
  const instead = `Google ships it for ${only.name} alone: --parts docker takes its image`;
  const how = (each: NodeJS.Platform) => (each === only.platform ? install : instead);
  const ways = { linux: how('linux'), darwin: how('darwin') };
  return { title: `the gcloud SDK with its ${title}`, ...ways, file, platform: only.platform };
}

/** Components of the gcloud SDK for a machine that runs all tests. */
export function componentsOfSdk(): string[] {
  const components = declaredParts.flatMap(({ program }) =>
    program.from === 'gcloud SDK' ? program.component : [],
  );
  return [`install_components: ${['pubsub-emulator', ...components, 'beta'].join(',')}`];
}
