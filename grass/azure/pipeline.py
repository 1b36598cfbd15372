"""The one place that speaks HTTP to Azure: a single try over azure-core's pipeline.

Packages of Azure are imported late: they take half a second. Retries are off, because ``arm`` repeats and says so.
Used by ``grass.provision.azure``.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from grass.azure.arm import LinkError, Reply, Send
from grass.azure.faults import LOGIN, AzureLoginError
from grass.errors import InputError, UnreachableError
from grass.manifest.document import Document

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_MISSING = (
    "packages for Azure are missing ({}); install them beside Grass with `pip install 'grass-cluster[azure]'`, then "
    "repeat the command"
)


def open_pipeline(endpoint: str, credential: TokenCredential | None = None) -> Send:
    """Return how requests are sent. ``credential`` None: that of azure-identity, which finds `az login` and others.

    The token goes only to ``endpoint`` and below. Raises InputError: packages are missing.
    """
    try:
        from azure.core.exceptions import AzureError as PipelineError
        from azure.core.exceptions import ClientAuthenticationError
        from azure.core.pipeline import Pipeline
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy, UserAgentPolicy
        from azure.core.pipeline.transport import RequestsTransport
        from azure.core.rest import HttpRequest
        from requests.exceptions import SSLError  # azure-core brings it
    except ImportError as error:
        raise InputError(_MISSING.format(error.name)) from error
    logging.getLogger("azure").setLevel(logging.CRITICAL)  # what it warns of is in its errors as well
    token = credential or _usual_credential()
    transport = RequestsTransport(connection_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS)
    agent: Any = UserAgentPolicy("grass")  # Any: policies of two kinds in one list
    signed = Pipeline(transport, [agent, BearerTokenCredentialPolicy(token, f"{endpoint}/.default")])
    plain = Pipeline(transport, [agent])
    own = urlsplit(endpoint).hostname or ""

    def send(method: str, url: str, body: Document | None) -> Reply:
        host = urlsplit(url).hostname or ""
        ours = host == own or host.endswith(f".{own}")
        headers = {"Accept": "application/json"}
        request = (
            HttpRequest(method, url, headers=headers, json=body)
            if body is not None
            else HttpRequest(method, url, headers=headers)
        )
        try:
            response = (signed if ours else plain).run(request).http_response
            text = response.body()
        except ClientAuthenticationError as error:
            raise AzureLoginError(f"Azure: nobody is signed in ({_attempts(error)}); {LOGIN}") from error
        except PipelineError as error:
            if isinstance(error.inner_exception, SSLError):
                raise UnreachableError(
                    f"Azure: the certificate of {host} is not trusted ({_first_line(error)}); name the file of its "
                    "authority in REQUESTS_CA_BUNDLE, if it is yours"
                ) from error
            raise LinkError(f"no answer from {host} ({_first_line(error)})") from error
        return Reply(response.status_code, _document(text), {k.lower(): v for k, v in response.headers.items()})

    return send


def _usual_credential() -> TokenCredential:
    """Return azure-identity's chain, which ``AZURE_TOKEN_CREDENTIALS`` narrows."""
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        raise InputError(_MISSING.format(error.name)) from error
    found: TokenCredential = DefaultAzureCredential(process_timeout=30)
    return found


def managed_identity() -> TokenCredential:
    """Return the identity of this machine on Azure. Its tokens are kept in memory alone."""
    try:
        from azure.identity import ManagedIdentityCredential
    except ImportError as error:
        raise InputError(_MISSING.format(error.name)) from error
    found: TokenCredential = ManagedIdentityCredential()
    return found


def _document(text: bytes) -> Document:
    """Return the JSON of a reply; empty: it is no object, such as a page of a proxy."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _attempts(error: Exception) -> str:
    """Return what the ways to sign in said. Each has a line behind a tab; from many, the line about `az` is chosen."""
    lines = [line.strip() for line in str(error).split("\n") if line.startswith("\t")]
    if len(lines) > 1:
        of_az = next((line for line in lines if line.startswith("AzureCliCredential")), lines[-1])
        return f"none of {len(lines)} ways to sign in works; {of_az}"
    return lines[0] if lines else _first_line(error)


def _first_line(error: Exception) -> str:
    return next((line.strip().rstrip(".") for line in str(error).split("\n") if line.strip()), type(error).__name__)
