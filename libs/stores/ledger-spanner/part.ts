import type { PartDeclaration } from '@triplock/runtime';

// Every test file has a database of its own; Cloud Spanner's limit is 100.
const databasesMax = 1_000;

/** Google's emulator, which stands for Cloud Spanner. */
export const spannerEmulator = {
  name: 'spanner',
  title: 'Spanner emulator',
  folder: import.meta.dirname,
  given: { variable: 'SPANNER_EMULATOR_HOST', example: '127.0.0.1:9010' },
  port: { usual: 19_010, variable: 'TRIPLOCK_SPANNER_PORT' },
  addressOf: (host, port) => `${host}:${port}`,
  probe: async (emulatorHost) => (await import('./spanner/schema.ts')).pingEmulator(emulatorHost),
  keeps: 'nothing',
  program: {
    from: 'gcloud SDK',
    // Its gateway_main adds a REST door to this one, which nobody here goes through.
    file: 'bin/cloud_spanner_emulator/emulator_main',
    component: 'cloud-spanner-emulator',
    debian: 'google-cloud-cli-spanner-emulator',
    only: { platform: 'linux', name: 'Linux' },
    args: (port) => [
      `--host_port=127.0.0.1:${port}`,
      `--override_max_databases_per_instance=${databasesMax}`,
    ],
    testVariable: 'TRIPLOCK_TEST_SPANNER',
  },
  container: {
    port: 9_010,
    image: {
      name: 'gcr.io/cloud-spanner-emulator/emulator:1.5.58',
      variable: 'SPANNER_EMULATOR_IMAGE',
      // Without the REST server that its image would start beside it, which asks no page where it
      // is from.
      command: ['/emulator_main', '--host_port=0.0.0.0:9010'],
    },
    memoryMiB: 512,
    lacks: {
      healthCheck: 'its image has no shell; clients try again',
      readOnly: 'where it writes is not documented, and it has no shell to look with',
      user: 'it runs as root, without a capability',
    },
  },
  licences: [
    {
      source: 'image',
      name: 'gcr.io/cloud-spanner-emulator/emulator',
      line: '1',
      program: 'Cloud Spanner emulator',
      licence: 'Apache-2.0',
      knownFrom:
        'https://github.com/GoogleCloudPlatform/cloud-spanner-emulator/blob/master/LICENSE',
    },
  ],
} as const satisfies PartDeclaration;
