// The Nx executor of tests. It is plain JavaScript, because Nx loads it under whatever Node it runs
// on; the tests themselves run on the pinned one.
import { spawn } from 'node:child_process';
import { join } from 'node:path';

export async function testOne(options, context) {
  const id = `${context.projectName}:${context.targetName}`;
  const { root } = context.projectsConfigurations.projects[context.projectName];
  const outcome = await run({ tasks: [{ id, root, options }] }, context.root);
  return { success: outcome[id]?.ok === true };
}

/** All that is due at once, so that it shares processes. */
export async function testMany(taskGraph, inputs, _overrides, context) {
  const tasks = Object.values(taskGraph.tasks).map(({ id, target }) => ({
    id,
    root: context.projectsConfigurations.projects[target.project].root,
    options: inputs[id],
  }));
  const outcome = await run({ tasks }, context.root);
  return Object.fromEntries(
    tasks.map(({ id }) => {
      const { ok = false, text = '' } = outcome[id] ?? {};
      return [id, { success: ok, terminalOutput: text }];
    }),
  );
}

/** What became of each task; none of those that did not come to their end. */
function run(plan, root) {
  const node = join(root, 'node_modules', 'node', 'bin', 'node');
  const child = spawn(node, [join(root, 'infra/test-runner/main.ts'), '--plan'], {
    cwd: root,
    stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
  });
  // Where it ends without reading it, its end says so.
  child.stdin.on('error', () => undefined).end(JSON.stringify(plan));
  return new Promise((resolve, reject) => {
    let outcome = {};
    child.on('message', (message) => {
      outcome = message;
    });
    child.once('error', reject);
    // Not at its exit: what it told may still be on its way then.
    child.once('close', () => resolve(outcome));
  });
}
