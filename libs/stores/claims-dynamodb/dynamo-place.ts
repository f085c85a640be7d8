import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';

/** A table of DynamoDB. */
export type DynamoPlace = {
  region: string;
  table: string;
  /**
   * The URL of DynamoDB Local, which stands for the service. Without it the client finds the
   * service and its credentials as every AWS client does.
   */
  emulator?: string;
};

/** A client's settings for the place. */
export function dynamoSettings({ region, emulator }: DynamoPlace): DynamoDBClientConfig {
  if (emulator === undefined) return { region };
  // It takes any credentials, and without some the client would look for real ones.
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  return { region, endpoint: emulator, credentials };
}
