import { createProjectGraphAsync, readCachedProjectGraph } from '@nx/devkit';

const inner = ['domain', 'contract', 'kit'];
const house = [...inner, 'adapter', 'store', 'wiring'];

/** Who may import whom, by the `kind:` tag of each package.json: ADR 11 says why. */
const arrows = {
  domain: [],
  contract: ['domain'],
  kit: ['kit'],
  adapter: inner,
  // One more store behind an adapter's port, or one before another, as a cache is.
  store: [...inner, 'adapter', 'store'],
  // Also the lists of stores, which open the one that the settings name.
  wiring: [...inner, 'adapter', 'store'],
  testing: [...inner, 'store'],
  service: house,
  // A service whose commands others call too.
  operator: house,
  // The launcher reads what each service declares of itself.
  infra: [...house, 'testing', 'operator', 'service', 'infra'],
  demo: [...house, 'testing', 'operator', 'infra'],
  e2e: [...house, 'testing', 'operator', 'infra', 'demo'],
  'load-tests': [...house, 'testing', 'operator', 'infra', 'demo'],
};

/** These take the test equipment into their tests, and only there. */
const testedOnRealStores = ['adapter', 'store', 'wiring', 'service', 'operator'];

/** Options of `@nx/enforce-module-boundaries` for sources or for tests. */
export function moduleBoundaries({ inTests }) {
  const depConstraints = Object.entries(arrows).map(([kind, targets]) => {
    const withTesting = inTests && testedOnRealStores.includes(kind);
    const allowed = withTesting ? [...targets, 'testing'] : targets;
    return {
      sourceTag: `kind:${kind}`,
      onlyDependOnLibsWithTags: allowed.map((target) => `kind:${target}`),
      // The domain is arithmetic and rules: whoever forks it takes no package along.
      ...(kind === 'domain' && { allowedExternalImports: inTests ? ['fast-check'] : [] }),
    };
  });
  return { depConstraints, banTransitiveDependencies: true };
}

/** Where the clients of stores and brokers may be imported. */
export const driverHomes = [
  'libs/{claims,ledger,inbox,partners,provider,transport,postgres,testing,stores,once}/**',
  '{infra,demo,e2e,load-tests}/**',
];

/** Where `process.env` may be read: settings are validated once, at the boot of a process. */
export const environmentHomes = [
  '**/config.ts',
  'libs/testing/**',
  '{infra,demo,e2e,load-tests}/**',
];

/**
 * Conformance suites are tests that several stores' test files call. What several test files of one
 * project share is in its folder `test`.
 */
export const testFiles = [
  '**/*.test.ts',
  '**/*.conformance.ts',
  '**/*.testing.ts',
  '**/test/**/*.ts',
];

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
