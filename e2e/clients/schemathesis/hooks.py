"""What the gateway may refuse although its document allows it: what no schema can say."""

import re

import schemathesis

REASONS = re.compile(
    "|".join(
        (
            # JSON Schema takes 1.0 for an integer.
            "an integer written in plain digits is expected",
            # Which fields and values go together, and which money a provider takes.
            "^A card cannot be charged in [A-Z]{3}: ",
            "^missing: only a card is captured$",
            "multiples of 10",
            # What a payment has to give back.
            "^more than is left of the payment: ",
            "^the payment is [a-z]+: it took no money",
            "^expected a window that begins before it ends",
            "^expected at most 31 days ",
            # An array of each type once, which few generators of clients can make of a schema.
            "^expected `\\[\"\\*\"\\]` for every type, ",
            # Which ids and positions there are, and from where one reads on.
            " listed before$",
            " that you were given here$",
            "^send either `after` or `since`$",
            # How long a key may last, and how many there may be.
            "^expected a time in the future, within five years$",
            "^expected at most \\d+ good API keys: ",
            # A parser of URLs decides, and then where they lead.
            "^expected an absolute URL ",
            "^use https",
            "card number",
        )
    )
)


@schemathesis.check
def takes_what_is_allowed(ctx, response, case):
    """No 400 for what the document allows, but for one of these reasons."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    problem = response.json()
    details = [each["detail"] for each in problem.get("errors", ())] or [problem["detail"]]
    unknown = [detail for detail in details if REASONS.search(detail) is None]
    if unknown:
        raise AssertionError(f"refused, although the document allows it: {unknown}")
