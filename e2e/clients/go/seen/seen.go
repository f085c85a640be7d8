// Package seen is what the Go clients have in common: what they print, and how they verify.
package seen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type Payment struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Amount int64  `json:"amount"`
}

type Retried struct {
	ID       string `json:"id"`
	Replayed string `json:"replayed"`
}

type Refused struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
}

type Refund struct {
	Payment string `json:"payment"`
	Status  string `json:"status"`
	Amount  int64  `json:"amount"`
}

type Listed struct {
	ID             string `json:"id"`
	AmountRefunded int64  `json:"amount_refunded"`
}

type Webhook struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Forged string `json:"forged"`
}

// Result is the line that every client prints.
type Result struct {
	Payment Payment  `json:"payment"`
	Retried Retried  `json:"retried"`
	Refused Refused  `json:"refused"`
	Refund  Refund   `json:"refund"`
	Listed  []Listed `json:"listed"`
	Webhook Webhook  `json:"webhook"`
}

// Print writes the line, once the payment's webhook came and was verified.
func (result Result) Print() error {
	webhook, err := webhookOf(result.Payment.ID)
	if err != nil {
		return err
	}
	result.Webhook = webhook
	return json.NewEncoder(os.Stdout).Encode(result)
}

func webhookOf(payment string) (Webhook, error) {
	received, err := http.Get(os.Getenv("WEBHOOKS") + "/" + payment)
	if err != nil {
		return Webhook{}, err
	}
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	if err != nil {
		return Webhook{}, err
	}
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		return Webhook{}, err
	}
	if err := webhook.Verify(body, received.Header); err != nil {
		return Webhook{}, fmt.Errorf("the webhook is not genuine: %w", err)
	}
	altered := bytes.Replace(body, []byte("3000000000"), []byte("9000000000"), 1)
	forged := "accepted"
	if webhook.Verify(altered, received.Header) != nil {
		forged = "refused"
	}
	var event struct {
		Type string
		Data struct{ ID string }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return Webhook{}, err
	}
	return Webhook{Type: event.Type, ID: event.Data.ID, Forged: forged}, nil
}
