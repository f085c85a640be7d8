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
import { addToList } from './lists.ts';
import { refuseName } from './names.ts';

const templates = join(import.meta.dirname, 'templates');

/**
 * Writes a service of the common shape that does nothing yet, declares and lists it. Its container
 * and what Prometheus knows of it are generated of the declaration.
 *
 * @throws RefusedName when the name is taken or not a name, LostList when the list of services
 * reads otherwise; nothing is written then.
 */
export async function service(tree: Tree, { name }: { name: string }): Promise<GeneratorCallback> {
  refuseName(tree, 'service', name);
  const facts = factsOf(tree, name);
  generateFiles(tree, join(templates, 'service'), `services/${name}`, facts);
  list(tree, facts);
  dependOn(tree, name);
  await formatFiles(tree);
  return () => {
    settle(tree);
    console.log(`services/${name} is listed. Next: npm run check, npm run up`);
  };
}

/** What templates and the list know of a new service. */
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

/** Puts it into the list of services, before the auditor: `down` stops that one last. */
export function list(tree: Tree, { name, variable }: Facts): void {
  const services = { file: 'infra/launcher/services.ts', constant: 'pipeline' };
  const from = `${packageOf(name)}/service`;
  addToList(tree, services, { name: variable, from, before: 'auditor' });
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
