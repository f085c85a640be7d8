import { join } from 'node:path';
import { formatFiles, generateFiles, type GeneratorCallback, type Tree } from '@nx/devkit';
import { refuseName } from './names.ts';
import { dependOn, factsOf, list, settle } from './service.ts';

const templates = join(import.meta.dirname, 'templates', 'consumer');

/**
 * Writes a consumer of events whose effect is rows, in the transaction of its inbox: subscribed,
 * migrated, watched by Prometheus and Grafana, shown in a payment's trace, and audited, all by what
 * is in its folder. Its name is one word, because it is also that of its schema, role, metrics and
 * crash points.
 *
 * @throws RefusedName when the name is taken or not a name, LostList when the list of services
 * reads otherwise; nothing is written then.
 */
export async function consumer(tree: Tree, { name }: { name: string }): Promise<GeneratorCallback> {
  refuseName(tree, 'consumer', name);
  const facts = factsOf(tree, name);
  const title = `${name[0]!.toUpperCase()}${name.slice(1)}`;
  generateFiles(tree, templates, `services/${name}`, { ...facts, title });
  list(tree, facts);
  dependOn(tree, name);
  await formatFiles(tree);
  return () => {
    settle(tree);
    console.log(`services/${name} consumes events. Next: npm run check, npm run up`);
  };
}
