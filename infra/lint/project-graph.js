import { createProjectGraphAsync, readCachedProjectGraph } from '@nx/devkit';

/**
 * Makes sure that the boundary rule has a project graph to judge by: without a stored one it would
 * skip itself with a warning, and every arrow would pass. Inside an Nx task the graph was stored
 * a moment ago and is only looked at.
 *
 * @throws when there is no graph after all, so that lint fails instead of passing unseen.
 */
export async function requireProjectGraph() {
  const insideNxTask = process.env.NX_CLI_SET === 'true';
  if (!insideNxTask) await createProjectGraphAsync({ exitOnError: false });
  readCachedProjectGraph();
}
