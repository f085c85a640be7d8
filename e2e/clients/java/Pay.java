import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.standardwebhooks.Webhook;
import com.standardwebhooks.exceptions.WebhookVerificationException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.PaymentsApi;
import org.openapitools.client.api.RefundsApi;
import org.openapitools.client.model.AcceptedPayment;
import org.openapitools.client.model.Payment;
import org.openapitools.client.model.PaymentRequest;
import org.openapitools.client.model.Problem;
import org.openapitools.client.model.Refund;
import org.openapitools.client.model.RefundRequest;

/** What a partner writes with the client that openapi-generator makes for Java. */
public class Pay {
  private static final String WAITING = "wait=30";

  public static void main(String[] arguments) throws Exception {
    String key = System.getenv("KEY");
    String apiKey = System.getenv("API_KEY");
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("GATEWAY"));
    client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + apiKey));
    PaymentsApi payments = new PaymentsApi(client);
    RefundsApi refunds = new RefundsApi(client);

    AcceptedPayment accepted = payments.createPayment(key, asked(key, 3_000_000_000L));
    ApiResponse<AcceptedPayment> again =
        payments.createPaymentWithHttpInfo(key, asked(key, 3_000_000_000L));
    Map<String, Object> refused = refusal(() -> payments.createPayment(key, asked(key, 1L)));
    Payment payment = payments.readPayment(accepted.getId(), WAITING);

    String refundId =
        refunds
            .createRefund(
                payment.getId(), key + "-refund", new RefundRequest().amount(2_500_000_000L))
            .getId();
    Refund refund = refunds.readRefund(refundId, WAITING);
    List<Map<String, Object>> listed =
        payments.listPayments(10L, null, null, key, null, null).getData().stream()
            .map(
                each ->
                    Map.<String, Object>of(
                        "id", each.getId(), "amount_refunded", each.getAmountRefunded()))
            .collect(Collectors.toList());

    Map<String, Object> result =
        Map.of(
            "payment",
            Map.of(
                "id", payment.getId(),
                "status", payment.getStatus().getValue(),
                "amount", payment.getAmount()),
            "retried",
            Map.of("id", again.getData().getId(), "replayed", replayed(again)),
            "refused",
            refused,
            "refund",
            Map.of(
                "payment", refund.getPayment(),
                "status", refund.getStatus().getValue(),
                "amount", refund.getAmount()),
            "listed",
            listed,
            "webhook",
            webhookOf(payment.getId()));
    System.out.println(new ObjectMapper().writeValueAsString(result));
  }

  private static PaymentRequest asked(String key, long amount) {
    return new PaymentRequest()
        .amount(amount)
        .currency(PaymentRequest.CurrencyEnum.EUR)
        .reference(key);
  }

  private static String replayed(ApiResponse<?> answer) {
    return String.join(", ", answer.getHeaders().getOrDefault("idempotency-replayed", List.of()));
  }

  private interface Request {
    void send() throws ApiException;
  }

  private static Map<String, Object> refusal(Request request) throws Exception {
    try {
      request.send();
    } catch (ApiException refused) {
      Problem problem =
          ApiClient.createDefaultObjectMapper().readValue(refused.getResponseBody(), Problem.class);
      return Map.of("status", refused.getCode(), "code", problem.getCode().getValue());
    }
    throw new IllegalStateException("another body was accepted under the same key");
  }

  private static Map<String, Object> webhookOf(String payment) throws Exception {
    URI received = URI.create(System.getenv("WEBHOOKS") + "/" + payment);
    var answer =
        HttpClient.newHttpClient()
            .send(HttpRequest.newBuilder(received).build(), BodyHandlers.ofString());
    Webhook webhook = new Webhook(System.getenv("WEBHOOK_SECRET"));
    webhook.verify(answer.body(), answer.headers());
    String forged = "accepted";
    try {
      webhook.verify(answer.body().replace("3000000000", "9000000000"), answer.headers());
    } catch (WebhookVerificationException refused) {
      forged = "refused";
    }
    JsonNode event = new ObjectMapper().readTree(answer.body());
    return Map.of(
        "type", event.get("type").asText(),
        "id", event.get("data").get("id").asText(),
        "forged", forged);
  }
}
