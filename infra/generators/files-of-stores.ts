import {
  claimStores,
  type DeclaredPart,
  declaredParts,
  ledgerStores,
  partsForStores,
} from '@triplock/launcher';
import type { ProgramInSdk } from '@triplock/runtime';
import { filledIn, type GeneratedFile, root } from './marked-parts.ts';

/** The files of which a part is made of what stores declare, and that name no service. */
export function filesOfStores(clone = root): GeneratedFile[] {
  const file = filledIn(clone);
  return [
    file('.github/workflows/ci.yml', { 'components of the SDK': componentsOfSdk() }),
    file('infra/launcher/look-first.mjs', { 'parts of stores': partsToLookFor() }),
  ];
}

/** What look-first.mjs looks for, as its source: it runs where no package is installed. */
function partsToLookFor(): string[] {
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
function componentsOfSdk(): string[] {
  const components = declaredParts.flatMap(({ program }) =>
    program.from === 'gcloud SDK' ? program.component : [],
  );
  return [`install_components: ${['pubsub-emulator', ...components, 'beta'].join(',')}`];
}
