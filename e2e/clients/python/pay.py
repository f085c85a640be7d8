"""What a partner writes with the client that openapi-generator makes for Python."""

import json
import os
import urllib.request

from openapi_client import (
    ApiClient,
    ApiException,
    Configuration,
    PaymentRequest,
    PaymentsApi,
    RefundRequest,
    RefundsApi,
)
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from urllib3 import HTTPHeaderDict

GATEWAY, API_KEY, KEY, WEBHOOKS, WEBHOOK_SECRET = (
    os.environ[name] for name in ("GATEWAY", "API_KEY", "KEY", "WEBHOOKS", "WEBHOOK_SECRET")
)


def main():
    client = ApiClient(Configuration(host=GATEWAY, access_token=API_KEY))
    payments, refunds = PaymentsApi(client), RefundsApi(client)

    asked = PaymentRequest(amount=3_000_000_000, currency="EUR", reference=KEY)
    accepted = payments.create_payment(KEY, asked)
    again = payments.create_payment_with_http_info(KEY, asked)
    try:
        payments.create_payment(KEY, asked.model_copy(update={"amount": 1}))
        raise SystemExit("another body was accepted under the same key")
    except ApiException as refusal:
        refused = {"status": refusal.status, "code": refusal.data.code}
    payment = payments.read_payment(accepted.id, prefer="wait=30")

    given_back = refunds.create_refund(
        payment.id, f"{KEY}-refund", RefundRequest(amount=2_500_000_000)
    )
    refund = refunds.read_refund(given_back.id, prefer="wait=30")
    listed = payments.list_payments(reference=KEY, limit=10)

    print(
        json.dumps(
            {
                "payment": {
                    "id": payment.id,
                    "status": payment.status,
                    "amount": payment.amount,
                },
                "retried": {
                    "id": again.data.id,
                    # Its names of headers are as they came, and their case is no one's promise.
                    "replayed": HTTPHeaderDict(again.headers).get("Idempotency-Replayed"),
                },
                "refused": refused,
                "refund": {
                    "payment": refund.payment,
                    "status": refund.status,
                    "amount": refund.amount,
                },
                "listed": [
                    {"id": each.id, "amount_refunded": each.amount_refunded}
                    for each in listed.data
                ],
                "webhook": webhook_of(payment.id),
            }
        )
    )


def webhook_of(payment_id):
    with urllib.request.urlopen(f"{WEBHOOKS}/{payment_id}", timeout=60) as received:
        body, headers = received.read(), dict(received.headers.items())
    webhook = Webhook(WEBHOOK_SECRET)
    event = webhook.verify(body, headers)
    try:
        webhook.verify(body.replace(b"3000000000", b"9000000000"), headers)
        forged = "accepted"
    except WebhookVerificationError:
        forged = "refused"
    return {"type": event["type"], "id": event["data"]["id"], "forged": forged}


main()
