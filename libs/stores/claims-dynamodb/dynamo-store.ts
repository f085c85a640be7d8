import type { ClaimStore } from '@triplock/claims';
import { refusedInProduction, text, url, withDefault, type SettingsOf } from '@triplock/runtime';
import { dynamoServer } from './part.ts';

const settings = {
  DYNAMODB_TABLE: withDefault(text, 'triplock-claims'),
  DYNAMODB_REGION: withDefault(text, undefined),
  /** A server that stands for the service; without one it is the service's own. */
  DYNAMODB_ENDPOINT: refusedInProduction(
    withDefault(url(['http:', 'https:']), undefined),
    (endpoint, isAllowed) =>
      endpoint !== undefined && /^http:/i.test(endpoint) && !isAllowed('ALLOW_INSECURE_DATABASE')
        ? 'it has no TLS: unset it, give https://, or ALLOW_INSECURE_DATABASE=true where the network keeps others out'
        : undefined,
  ),
};

/** Claims in DynamoDB. */
export const dynamoStore = {
  title: 'DynamoDB',
  parts: [dynamoServer.name],
  brings: dynamoServer,
  settings,
  needs: { claims: ['DYNAMODB_REGION'], walk: ['DYNAMODB_REGION'] },
  advice: {
    DYNAMODB_REGION: 'the region of the claim store',
    DYNAMODB_TABLE: 'the table of the claims',
    DYNAMODB_ENDPOINT: 'the URL of a server that stands for DynamoDB',
  },
  // Of the region such a server asks nothing.
  settingsAt: ({ dynamodb }) => ({
    DYNAMODB_REGION: 'eu-central-1',
    DYNAMODB_ENDPOINT: String(dynamodb),
  }),
  provision: async (given) => {
    const { createClaimsTable } = await import('./claims-table.ts');
    await createClaimsTable(tableIn(given));
  },
  open: async (given, options) => {
    const { openDynamoClaims } = await import('./dynamo-claims.ts');
    return openDynamoClaims({ ...options, ...tableIn(given) });
  },
  walk: async (given, options) => {
    const { openDynamoWalk } = await import('./dynamo-claims.ts');
    return openDynamoWalk({ ...options, ...tableIn(given) });
  },
  inspect: async (given, options) => {
    const { inspectDynamoClaims } = await import('./dynamo-inspector.ts');
    return inspectDynamoClaims({ ...options, ...tableIn(given) });
  },
} as const satisfies ClaimStore<typeof settings>;

function tableIn(given: SettingsOf<typeof settings>) {
  const { DYNAMODB_REGION: region, DYNAMODB_TABLE: table, DYNAMODB_ENDPOINT: emulator } = given;
  return { region: region!, table, ...(emulator !== undefined && { emulator }) };
}
