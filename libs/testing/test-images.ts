/** The images of the parts in tests, the same as docker-compose.yml has. */
export const testImages = {
  redis: 'redis:8-alpine',
  kafka: 'apache/kafka:4.1.0',
  postgres: 'postgres:18-alpine',
  pubsub: 'gcr.io/google.com/cloudsdktool/google-cloud-cli:emulators',
} as const;
