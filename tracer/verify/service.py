"""Sends one request through the service that is to be verified, whichever of two APIs it has."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import httpx

#: Long enough for several pages of any size that is in use, and unlike what a prefix cache holds.
PROMPT_WORDS = 96
PATHS = ("/generate", "/v1/completions")


@dataclass(frozen=True)
class Sent:
    """What became of the request. ``request``: the id it was sent with, empty where the API takes none."""

    ok: bool
    api: str
    request: str
    message: str


def send_request(url: str, *, timeout_s: float = 60.0) -> Sent:
    """Send one request to the service at ``url``. Never raises for what the service does."""
    request = f"pd-tracer-verify-{uuid.uuid4().hex[:12]}"
    prompt = " ".join(f"{request[-6:]}{number}" for number in range(PROMPT_WORDS))
    tried = []
    with httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s) as client:
        for path in PATHS:
            try:
                body = _generate(prompt, request) if path == "/generate" else _completion(client, prompt)
                answer = client.post(path, json=body)
            except httpx.HTTPError as fault:
                return Sent(False, path, "", f"{url}{path} does not answer: {fault}")
            if answer.status_code in (404, 405):
                tried.append(path)
                continue
            if answer.is_success:
                return Sent(True, path, request if path == "/generate" else "", f"{path} answered")
            return Sent(False, path, "", f"{path} answered {answer.status_code}: {answer.text[:200]}")
    return Sent(False, "", "", f"{url} has none of {', '.join(tried)}: name the router, not the collector")


def _generate(prompt: str, request: str) -> dict[str, object]:
    return {"text": prompt, "rid": request, "sampling_params": {"temperature": 0, "max_new_tokens": 2}}


def _completion(client: httpx.Client, prompt: str) -> dict[str, object]:
    listed = client.get("/v1/models")
    models = listed.json().get("data", []) if listed.is_success else []
    model = models[0]["id"] if models else "default"
    return {"model": model, "prompt": prompt, "max_tokens": 2, "temperature": 0}
