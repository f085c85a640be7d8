"""What a partner writes with the client that openapi-python-client makes."""

import json
import os
import urllib.request

from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from triplock_client import AuthenticatedClient
from triplock_client.api.payments import create_payment, list_payments, read_payment
from triplock_client.api.refunds import create_refund, read_refund
from triplock_client.models import PaymentRequest, PaymentRequestCurrency, RefundRequest

GATEWAY, API_KEY, KEY, WEBHOOKS, WEBHOOK_SECRET = (
    os.environ[name] for name in ("GATEWAY", "API_KEY", "KEY", "WEBHOOKS", "WEBHOOK_SECRET")
)


def main():
    # A read waits for up to 30 seconds, longer than httpx does by itself.
    client = AuthenticatedClient(
        base_url=GATEWAY, token=API_KEY, timeout=60, raise_on_unexpected_status=True
    )

    asked = PaymentRequest(
        amount=3_000_000_000, currency=PaymentRequestCurrency.EUR, reference=KEY
    )
    accepted = create_payment.sync(client=client, body=asked, idempotency_key=KEY)
    again = create_payment.sync_detailed(client=client, body=asked, idempotency_key=KEY)
    other = PaymentRequest(amount=1, currency=PaymentRequestCurrency.EUR, reference=KEY)
    refused = create_payment.sync_detailed(client=client, body=other, idempotency_key=KEY)
    payment = read_payment.sync(accepted.id, client=client, prefer="wait=30")

    given_back = create_refund.sync(
        payment.id,
        client=client,
        body=RefundRequest(amount=2_500_000_000),
        idempotency_key=f"{KEY}-refund",
    )
    refund = read_refund.sync(given_back.id, client=client, prefer="wait=30")
    listed = list_payments.sync(client=client, reference=KEY, limit=10)

    print(
        json.dumps(
            {
                "payment": {
                    "id": payment.id,
                    "status": payment.status.value,
                    "amount": payment.amount,
                },
                "retried": {
                    "id": again.parsed.id,
                    "replayed": again.headers.get("Idempotency-Replayed"),
                },
                "refused": {
                    "status": refused.status_code.value,
                    "code": refused.parsed.code.value,
                },
                "refund": {
                    "payment": refund.payment,
                    "status": refund.status.value,
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
