// What a partner writes with the client that openapi-generator makes for Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"clients.example/pay/client"
	"clients.example/pay/seen"
)

func main() {
	if err := pay(); err != nil {
		log.Fatal(err)
	}
}

func pay() error {
	key := os.Getenv("KEY")
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Getenv("GATEWAY")}}
	api := client.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), client.ContextAccessToken, os.Getenv("API_KEY"))

	asked := client.NewPaymentRequest(3_000_000_000, "EUR")
	asked.SetReference(key)
	create := func(body client.PaymentRequest) client.ApiCreatePaymentRequest {
		return api.PaymentsAPI.CreatePayment(ctx).IdempotencyKey(key).PaymentRequest(body)
	}
	accepted, _, err := create(*asked).Execute()
	if err != nil {
		return err
	}
	again, answer, err := create(*asked).Execute()
	if err != nil {
		return err
	}
	other := *asked
	other.SetAmount(1)
	_, refusal, err := create(other).Execute()
	var failure *client.GenericOpenAPIError
	if !errors.As(err, &failure) {
		return fmt.Errorf("another body was accepted under the same key: %w", err)
	}
	problem, isProblem := failure.Model().(client.Problem)
	if !isProblem {
		return fmt.Errorf("no problem, but %T", failure.Model())
	}
	payment, _, err := api.PaymentsAPI.ReadPayment(ctx, accepted.Id).Prefer("wait=30").Execute()
	if err != nil {
		return err
	}

	part := client.NewRefundRequest()
	part.SetAmount(2_500_000_000)
	givenBack, _, err := api.RefundsAPI.CreateRefund(ctx, payment.Id).
		IdempotencyKey(key + "-refund").RefundRequest(*part).Execute()
	if err != nil {
		return err
	}
	refund, _, err := api.RefundsAPI.ReadRefund(ctx, givenBack.Id).Prefer("wait=30").Execute()
	if err != nil {
		return err
	}
	list, _, err := api.PaymentsAPI.ListPayments(ctx).Reference(key).Limit(10).Execute()
	if err != nil {
		return err
	}

	result := seen.Result{
		Payment: seen.Payment{ID: payment.Id, Status: payment.Status, Amount: payment.Amount},
		Retried: seen.Retried{ID: again.Id, Replayed: answer.Header.Get("Idempotency-Replayed")},
		Refused: seen.Refused{Status: refusal.StatusCode, Code: problem.Code},
		Refund:  seen.Refund{Payment: refund.Payment, Status: refund.Status, Amount: refund.GetAmount()},
	}
	for _, each := range list.Data {
		result.Listed = append(result.Listed, seen.Listed{ID: each.Id, AmountRefunded: each.AmountRefunded})
	}
	return result.Print()
}
