import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import {
  formatFiles,
  generateFiles,
  installPackagesTask,
  updateJson,
  type GeneratorCallback,
  type Tree,
} from '@nx/devkit';
import { insertAll, type Insertion } from './insertions.ts';
import { refuseName } from './names.ts';

const templates = join(import.meta.dirname, 'templates');

/**
 * Writes a service of the common shape that does nothing yet, declares and lists it. Its container
 * and what Prometheus knows of it are generated of the declaration.
 *
 * @throws RefusedName when the name is taken or not a name, LostAnchor when a file that has to name
 * the service reads otherwise; nothing is written then.
 */
export async function service(tree: Tree, { name }: { name: string }): Promise<GeneratorCallback> {
  refuseName(tree, 'service', name);
  const facts = factsOf(tree, name);
  generateFiles(tree, join(templates, 'service'), `services/${name}`, facts);
  insertAll(tree, [...listings(facts), manual(name, ['', '', ''])]);
  dependOn(tree, name);
  await formatFiles(tree);
  return () => {
    settle(tree);
    console.log(`services/${name} is listed. Next: npm run check, npm run up`);
  };
}

/** What templates and insertions know of a new service. */
export type Facts = {
  name: string;
  /** As a constant of TypeScript, and as a part of the names of metrics. */
  variable: string;
  snake: string;
  /** Its first admin port, and the variable of docker-compose.yml that moves it. */
  port: string;
  ports: string;
};

/** Takes the ports behind the last ones that are declared: ten for its replicas. */
export function factsOf(tree: Tree, name: string): Facts {
  const folders = tree.children('services').flatMap((folder) => {
    return [folder, ...tree.children(`services/${folder}`).map((each) => `${folder}/${each}`)];
  });
  const declared = folders.flatMap((folder) => {
    const file = `services/${folder}/service.ts`;
    const text = tree.isFile(file) ? tree.read(file, 'utf8')! : '';
    return [...text.matchAll(/usual: ([\d_]+)/g)].map(([, port]) => Number(port!.replace('_', '')));
  });
  const snake = name.replaceAll('-', '_');
  return {
    name,
    variable: name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()),
    snake,
    port: String(Math.max(...declared) + 10).replace(/(?=\d{3}$)/, '_'),
    ports: `TRIPLOCK_${snake.toUpperCase()}_ADMIN_PORTS`,
  };
}

/** Where every service is listed, each before the auditor: `down` stops it last. */
export function listings({ name, variable }: Facts): readonly Insertion[] {
  return [
    {
      file: 'infra/launcher/services.ts',
      before: `import { CommandError } from '@triplock/command';`,
      text: `import { ${variable} } from "${packageOf(name)}/service";\n`,
    },
    {
      file: 'infra/launcher/services.ts',
      before: `  auditor,\n  operatorConsole,\n] as const satisfies readonly ServiceDeclaration[];`,
      text: `  ${variable},\n`,
    },
  ];
}

/** Its row among the services in the manual: role, what it needs, what else to look at. */
export function manual(name: string, columns: readonly [string, string, string]): Insertion {
  return {
    file: 'docs/operating.md',
    before: '| [auditor](../services/auditor/config.ts)',
    text: `| [${name}](../services/${name}/config.ts) | ${columns.join(' | ')} |\n`,
  };
}

/** The launcher reads its declaration. */
export function dependOn(tree: Tree, name: string): void {
  type Package = { dependencies: Record<string, string> };
  updateJson<Package>(tree, 'infra/launcher/package.json', (launcher) => {
    const all = Object.entries({ ...launcher.dependencies, [packageOf(name)]: '*' });
    const [ours, others] = [true, false].map((wanted) =>
      all.filter(([each]) => each.startsWith('@triplock/') === wanted),
    ) as [typeof all, typeof all];
    const sorted = ours.toSorted(([one], [other]) => one.localeCompare(other));
    return { ...launcher, dependencies: Object.fromEntries([...sorted, ...others]) };
  });
}

function packageOf(name: string): string {
  return `@triplock/${name}`;
}

/** Links the new workspace, and writes what is generated of its declaration. */
export function settle(tree: Tree): void {
  installPackagesTask(tree, true);
  const generate = join(tree.root, 'infra', 'generators', 'generate.ts');
  execFileSync(process.execPath, [generate], { cwd: tree.root, stdio: 'inherit' });
}
