import type { v1 } from '@google-cloud/spanner';

export type SpannerClient = InstanceType<typeof v1.SpannerClient>;
export type DatabaseAdminClient = InstanceType<typeof v1.DatabaseAdminClient>;
export type InstanceAdminClient = InstanceType<typeof v1.InstanceAdminClient>;
