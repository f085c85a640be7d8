// What a partner writes with the client that ogen makes.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"clients.example/pay/client"
	"clients.example/pay/seen"
)

// bearer gives each request the API key.
type bearer struct{ key string }

func (own bearer) ApiKey(context.Context, client.OperationName) (client.ApiKey, error) {
	return client.ApiKey{Token: own.key}, nil
}

func main() {
	if err := pay(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// as gives an answer its type, or says which other one came.
func as[Wanted any](answer any, err error) (Wanted, error) {
	wanted, isWanted := answer.(Wanted)
	if err == nil && !isWanted {
		err = fmt.Errorf("no %T, but %+v", wanted, answer)
	}
	return wanted, err
}

func pay(ctx context.Context) error {
	key := os.Getenv("KEY")
	api, err := client.NewClient(os.Getenv("GATEWAY"), bearer{os.Getenv("API_KEY")})
	if err != nil {
		return err
	}

	named := client.CreatePaymentParams{IdempotencyKey: key}
	asked := client.PaymentRequest{
		Amount:    3_000_000_000,
		Currency:  client.PaymentRequestCurrencyEUR,
		Reference: client.NewOptString(key),
	}
	create := func(body client.PaymentRequest) (any, error) { return api.CreatePayment(ctx, &body, named) }
	accepted, err := as[*client.AcceptedPaymentHeaders](create(asked))
	if err != nil {
		return err
	}
	again, err := as[*client.AcceptedPaymentHeaders](create(asked))
	if err != nil {
		return err
	}
	other := asked
	other.Amount = 1
	refused, err := as[*client.CreatePaymentUnprocessableEntity](create(other))
	if err != nil {
		return err
	}
	waiting := client.NewOptString("wait=30")
	read, err := as[*client.PaymentHeaders](api.ReadPayment(ctx, client.ReadPaymentParams{
		ID: accepted.Response.ID, Prefer: waiting,
	}))
	if err != nil {
		return err
	}
	payment := read.Response

	givenBack, err := as[*client.AcceptedRefundHeaders](api.CreateRefund(
		ctx,
		&client.RefundRequest{Amount: client.NewOptInt64(2_500_000_000)},
		client.CreateRefundParams{ID: payment.ID, IdempotencyKey: key + "-refund"},
	))
	if err != nil {
		return err
	}
	returned, err := as[*client.RefundHeaders](api.ReadRefund(ctx, client.ReadRefundParams{
		ID: givenBack.Response.ID, Prefer: waiting,
	}))
	if err != nil {
		return err
	}
	refund := returned.Response
	list, err := as[*client.ListPaymentsOKHeaders](api.ListPayments(ctx, client.ListPaymentsParams{
		Reference: client.NewOptString(key),
	}))
	if err != nil {
		return err
	}

	result := seen.Result{
		Payment: seen.Payment{ID: payment.ID, Status: string(payment.Status), Amount: payment.Amount},
		Retried: seen.Retried{ID: again.Response.ID, Replayed: string(again.IdempotencyReplayed.Value)},
		// Its type is that of the status.
		Refused: seen.Refused{
			Status: http.StatusUnprocessableEntity, Code: string(refused.Response.Code),
		},
		Refund: seen.Refund{
			Payment: refund.Payment, Status: string(refund.Status), Amount: refund.Amount.Value,
		},
	}
	for _, each := range list.Response.Data {
		result.Listed = append(result.Listed, seen.Listed{ID: each.ID, AmountRefunded: each.AmountRefunded})
	}
	return result.Print()
}
