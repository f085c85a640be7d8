/** Who may import whom, by the `kind:` tag of each package.json: ADR 11 says why. */
const arrows = {
  domain: [],
  contract: ['domain'],
  kit: ['kit'],
  adapter: ['domain', 'contract', 'kit'],
  testing: ['domain', 'contract', 'kit'],
  service: ['domain', 'contract', 'kit', 'adapter'],
  infra: ['domain', 'contract', 'kit', 'adapter', 'testing'],
  demo: ['domain', 'contract', 'kit', 'adapter', 'testing', 'infra'],
  e2e: ['domain', 'contract', 'kit', 'adapter', 'testing', 'infra', 'demo'],
  'load-tests': ['domain', 'contract', 'kit', 'adapter', 'testing', 'infra', 'demo'],
};

/** These take the test equipment into their tests, and only there. */
const testedOnRealStores = ['adapter', 'service'];

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
  'libs/{claims,ledger,inbox,partners,provider,transport,postgres,spanner,testing}/**',
  '{infra,demo,e2e,load-tests}/**',
];

/** Where `process.env` may be read: settings are validated once, at the boot of a process. */
export const environmentHomes = [
  '**/config.ts',
  'libs/testing/**',
  '{infra,demo,e2e,load-tests}/**',
];

/**
 * Conformance suites are tests that several stores' test files call, and `*.testing.ts` is what
 * several test files of one project share.
 */
export const testFiles = ['**/*.test.ts', '**/*.conformance.ts', '**/*.testing.ts'];
