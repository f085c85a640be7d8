//! What a partner writes in Rust: HTTP by hand, and webhooks verified by the library of Standard
//! Webhooks.
use std::env::var;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

type Outcome<Made> = Result<Made, Box<dyn std::error::Error>>;

/// An answer, whatever its status.
struct Answer {
    status: u16,
    replayed: Option<String>,
    body: Value,
}

fn send(method: &str, path: &str, key: Option<&str>, body: Option<Value>) -> Outcome<Answer> {
    let mut request = ureq::request(method, &format!("{}{path}", var("GATEWAY")?))
        .set("Authorization", &format!("Bearer {}", var("API_KEY")?));
    request = match key {
        Some(key) => request.set("Idempotency-Key", key),
        None => request.set("Prefer", "wait=30"),
    };
    let sent = match body {
        Some(body) => request.send_json(body),
        None => request.call(),
    };
    let response = match sent {
        Ok(response) | Err(ureq::Error::Status(_, response)) => response,
        Err(error) => return Err(error.into()),
    };
    Ok(Answer {
        status: response.status(),
        replayed: response.header("Idempotency-Replayed").map(String::from),
        body: response.into_json()?,
    })
}

fn webhook_of(payment: &str) -> Outcome<Value> {
    let received = ureq::get(&format!("{}/{payment}", var("WEBHOOKS")?)).call()?;
    let mut headers = HeaderMap::new();
    for name in received.headers_names() {
        if let Some(value) = received.header(&name) {
            headers.insert(name.parse::<HeaderName>()?, HeaderValue::from_str(value)?);
        }
    }
    let body = received.into_string()?;
    let webhook = Webhook::new(&var("WEBHOOK_SECRET")?)?;
    webhook.verify(body.as_bytes(), &headers)?;
    let forged = body.replace("3000000000", "9000000000");
    let is_taken = webhook.verify(forged.as_bytes(), &headers).is_ok();
    let event: Value = serde_json::from_str(&body)?;
    Ok(json!({
        "type": event["type"],
        "id": event["data"]["id"],
        "forged": if is_taken { "accepted" } else { "refused" },
    }))
}

fn main() -> Outcome<()> {
    let key = var("KEY")?;
    let pay = |amount: u64| {
        let body = json!({ "amount": amount, "currency": "EUR", "reference": key });
        send("POST", "/v1/payments", Some(&key), Some(body))
    };
    let accepted = pay(3_000_000_000)?;
    let again = pay(3_000_000_000)?;
    let refused = pay(1)?;
    let id = accepted.body["id"]
        .as_str()
        .ok_or("the payment has no id")?;
    let payment = send("GET", &format!("/v1/payments/{id}"), None, None)?.body;
    let given_back = send(
        "POST",
        &format!("/v1/payments/{id}/refunds"),
        Some(&format!("{key}-refund")),
        Some(json!({ "amount": 2_500_000_000_u64 })),
    )?;
    let refund_id = given_back.body["id"]
        .as_str()
        .ok_or("the refund has no id")?;
    let refund = send("GET", &format!("/v1/refunds/{refund_id}"), None, None)?.body;
    let list = send(
        "GET",
        &format!("/v1/payments?reference={key}&limit=10"),
        None,
        None,
    )?
    .body;
    let listed: Vec<Value> = list["data"]
        .as_array()
        .ok_or("the list has no data")?
        .iter()
        .map(|each| json!({ "id": each["id"], "amount_refunded": each["amount_refunded"] }))
        .collect();
    let part = |whole: &Value, names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| (name.to_string(), whole[*name].clone()))
            .collect()
    };
    println!(
        "{}",
        json!({
            "payment": part(&payment, &["id", "status", "amount"]),
            "retried": { "id": again.body["id"], "replayed": again.replayed },
            "refused": { "status": refused.status, "code": refused.body["code"] },
            "refund": part(&refund, &["payment", "status", "amount"]),
            "listed": listed,
            "webhook": webhook_of(id)?,
        })
    );
    Ok(())
}
