// What a partner writes with the client that oapi-codegen makes.
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

func main() {
	if err := pay(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func pay(ctx context.Context) error {
	key := os.Getenv("KEY")
	authorized := client.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
		return nil
	})
	api, err := client.NewClientWithResponses(os.Getenv("GATEWAY"), authorized)
	if err != nil {
		return err
	}

	named := &client.CreatePaymentParams{IdempotencyKey: key}
	asked := client.PaymentRequest{Amount: 3_000_000_000, Currency: client.EUR, Reference: &key}
	accepted, err := api.CreatePaymentWithResponse(ctx, named, asked)
	if err != nil {
		return err
	}
	if accepted.JSON202 == nil {
		return fmt.Errorf("the payment got %s", accepted.Body)
	}
	again, err := api.CreatePaymentWithResponse(ctx, named, asked)
	if err != nil {
		return err
	}
	if again.JSON202 == nil {
		return fmt.Errorf("the retry got %s", again.Body)
	}
	other := asked
	other.Amount = 1
	refused, err := api.CreatePaymentWithResponse(ctx, named, other)
	if err != nil {
		return err
	}
	if refused.ApplicationproblemJSON422 == nil {
		return fmt.Errorf("another body under the same key got %s", refused.Body)
	}
	waiting := "wait=30"
	payment, err := api.ReadPaymentWithResponse(
		ctx, accepted.JSON202.Id, &client.ReadPaymentParams{Prefer: &waiting},
	)
	if err != nil {
		return err
	}
	if payment.JSON200 == nil {
		return fmt.Errorf("reading the payment got %s", payment.Body)
	}

	amount := int64(2_500_000_000)
	givenBack, err := api.CreateRefundWithResponse(
		ctx, payment.JSON200.Id,
		&client.CreateRefundParams{IdempotencyKey: key + "-refund"},
		client.RefundRequest{Amount: &amount},
	)
	if err != nil {
		return err
	}
	if givenBack.JSON202 == nil {
		return fmt.Errorf("the refund got %s", givenBack.Body)
	}
	refund, err := api.ReadRefundWithResponse(
		ctx, givenBack.JSON202.Id, &client.ReadRefundParams{Prefer: &waiting},
	)
	if err != nil {
		return err
	}
	if refund.JSON200 == nil || refund.JSON200.Amount == nil {
		return fmt.Errorf("reading the refund got %s", refund.Body)
	}
	list, err := api.ListPaymentsWithResponse(ctx, &client.ListPaymentsParams{Reference: &key})
	if err != nil {
		return err
	}
	if list.JSON200 == nil {
		return fmt.Errorf("the list got %s", list.Body)
	}

	final, returned := payment.JSON200, refund.JSON200
	result := seen.Result{
		Payment: seen.Payment{ID: final.Id, Status: string(final.Status), Amount: final.Amount},
		Retried: seen.Retried{
			ID:       again.JSON202.Id,
			Replayed: again.HTTPResponse.Header.Get("Idempotency-Replayed"),
		},
		Refused: seen.Refused{
			Status: refused.StatusCode(), Code: string(refused.ApplicationproblemJSON422.Code),
		},
		Refund: seen.Refund{
			Payment: returned.Payment, Status: string(returned.Status), Amount: *returned.Amount,
		},
	}
	for _, each := range list.JSON200.Data {
		result.Listed = append(result.Listed, seen.Listed{ID: each.Id, AmountRefunded: each.AmountRefunded})
	}
	return result.Print()
}
