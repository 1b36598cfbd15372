"""The Flask application of the dashboard: the page's files, the feed, logs, questions and actions.

Every answer passes ``PageAccess`` first and carries headers that let the browser load nothing from elsewhere. Used by
``server``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, jsonify, request
from werkzeug import Response as WsgiResponse
from werkzeug.exceptions import BadRequestKeyError, HTTPException

import grass
from grass.api.client import Client
from grass.api.comparison import MOST_SIDES, grouped
from grass.dashboard.access import LOOPBACK, OPEN, PageAccess, RefusedError
from grass.dashboard.actions import ACTIONS, Body, JobFiles, starting, text_of
from grass.dashboard.connection import Connection
from grass.dashboard.files import Files
from grass.dashboard.logs import LogWords, log_file, log_pieces
from grass.dashboard.merged_feed import Message
from grass.dashboard.mirror import Mirrors
from grass.dashboard.one_file import PAGE, read, source
from grass.dashboard.previews import preview
from grass.dashboard.questions import QUESTIONS
from grass.dashboard.sending import save, save_text, show_picture
from grass.dashboard.web_pages import WebPages
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.model.failure_text import without_causes
from grass.model.names import is_job_id
from grass.system import clock
from grass.wire.codec import builtins, encode
from grass.wire.version import HEADER, spoken

_CLASSIC_SCRIPT = re.compile(r'<script src="/assets/\w+/(\w+\.js)"></script>')


def _policy(inline: list[str]) -> str:
    """Return the Content-Security-Policy: files of this server only, and these scripts in the document."""
    scripts = " ".join(["'self'", *map(source, inline)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


HEADERS = {
    "Content-Security-Policy": _policy([]),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    HEADER: spoken(grass.__version__).header,
}
TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain",
}
MOST_BODY = 64 * 1024
"""Most bytes of any other request."""
MOST_FILE = 8 << 20
"""Most bytes of a request with a job file. The file has at most 1 MiB, and JSON may escape each of its characters."""
SILENCE = 5.0
"""Seconds after which an idle stream sends a comment, so that a closed tab is noticed."""


@dataclass(frozen=True)
class Offered:
    """What the page may show and do. As JSON: the answer to ``/me``, and the first message of the feed."""

    cluster: str
    actions: list[str]
    questions: list[str]
    files: bool
    version: str
    shared: bool


class Pages:
    """The handlers. ``connect``: makes a client of the cluster. ``shared``: no logs, no files and no changes.

    ``steady``: the clock of the expiry.
    """

    def __init__(
        self,
        access: PageAccess,
        connect: Callable[[], Client],
        files: Files | None = None,
        job_files: JobFiles | None = None,
        *,
        shared: bool = False,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        self._access = access
        self._steady = steady
        self._connection = Connection(connect)
        self._files = None if shared else files
        self._web_pages = WebPages(self._connection.client)
        own = {**ACTIONS, "page-open": self._open_page, **(starting(job_files) if job_files else {})}
        self._actions = {} if shared else own
        self._shared = shared
        self.mirrors = Mirrors(connect)

    def close(self) -> None:
        """End all streams, and close the connections to the cluster."""
        self.mirrors.close()
        self._web_pages.close()
        self._connection.close()

    @property
    def _client(self) -> Client:
        return self._connection.client()

    def check(self) -> None:
        """Refuse a request before anything reads it."""
        cookie = request.cookies.get(self._access.cookie_name, "")
        self._access.check(request.method, request.path, dict(request.headers), cookie, self._steady())

    def open(self, secret: str) -> Response:
        if not self._access.accepts(secret):
            raise RefusedError(401, "this link is not valid any more; use the one that `grass dashboard` printed last")
        response = document("index.html")  # a redirect would be part of the navigation, perhaps from another site
        response.set_cookie(self._access.cookie_name, self._access.cookie, httponly=True, samesite="Strict")
        return response

    def me(self) -> Response:
        """Answer what the page may offer. The answer does not depend on the cluster, so a page opens without it."""
        return jsonify(self._offered())

    def _offered(self) -> Offered:
        return Offered(
            cluster=self._client.folder.name,
            actions=[*self._actions],
            questions=[name for name, question in QUESTIONS.items() if question.shared or not self._shared],
            files=self._files is not None,
            version=grass.__version__,
            shared=self._shared,
        )

    def feed(self) -> Response:
        return _events(self._news(request.args.get("job")))

    def _news(self, job: str | None) -> Iterator[Message | None]:
        """Yield first what the page may offer, at once; then the state of the cluster as it comes."""
        yield {"me": asdict(self._offered())}
        with self.mirrors.open(job) as mailbox:
            while not mailbox.closed and not self._access.expired(self._steady()):
                piece = mailbox.wait_for_news(SILENCE)
                message: Message = {"quiet": mailbox.quiet()} if piece is None else piece
                if self._shared:
                    message = without_causes(builtins(message))
                yield message

    def ask(self, name: str) -> Response:
        question = QUESTIONS.get(name)
        if question is None or (self._shared and not question.shared):
            raise RefusedError(404, f"no question {name}")
        try:
            answer = builtins(question.ask(self._client, request.args))
            return _as_json(without_causes(answer) if self._shared else answer)
        except BadRequestKeyError as error:
            raise InputError(f"query parameter {error.args[0]}: missing") from error

    def logs(self) -> Response:
        if self._shared:
            raise NotAllowedError("logs: a shared page does not show them")
        return _events(log_pieces(self._client, LogWords.parse(request.args)))

    def log_file(self) -> WsgiResponse:
        """Answer with the whole log of a job or a task, for the browser to save."""
        if self._shared:
            raise NotAllowedError("logs: a shared page does not show them")
        job, task = request.args.get("job", ""), request.args.get("component") or None
        name = f"{job}.{task}.log" if task else f"{job}.log"
        return save_text(log_file(self._client, job, task), name)

    def job_file(self) -> WsgiResponse:
        """Answer with the file of a job, for the browser to save."""
        if self._shared:
            raise NotAllowedError("job file: a shared page does not show it")
        file = self._client.job_file(request.args.get("job", ""))
        return save_text(iter([file.text.encode()]), file.name)

    def files(self) -> Response:
        return jsonify(builtins(self._share().entries(request.args.get("path", ""))))

    def preview(self) -> Response:
        """Answer with the beginning of a file of the share, as text or as a table."""
        path = request.args.get("path", "")
        with self._share().read(path) as content:
            return _as_json(preview(path.rpartition("/")[2], content))

    def file_groups(self) -> Response:
        """Answer how the output files of some jobs, separated by commas, differ."""
        jobs = request.args.get("jobs", "").split(",")
        if len(jobs) > MOST_SIDES or not all(map(is_job_id, jobs)):
            raise InputError(f"query parameter jobs: must be up to {MOST_SIDES} ids of jobs")
        found = {}
        for job in jobs:
            try:
                found[job] = self._share().digests(f"jobs/{job}")
            except NotFoundError:  # it has written nothing
                found[job] = []
        return _as_json(grouped(found))

    def file(self) -> WsgiResponse:
        """Answer with a file of the share, for the browser to save; as ``picture``, for the page to show."""
        path = request.args.get("path", "")
        send = show_picture if "picture" in request.args else save
        return send(self._share().read(path), path.rstrip("/").rpartition("/")[2])

    def _share(self) -> Files:
        if self._files is None:
            raise NotAllowedError("files: this page does not show them")
        return self._files

    def _open_page(self, _: Client, body: Body) -> dict[str, str]:
        """Open the web page of a component. The page is another host for the browser than the dashboard, because a
        browser sends cookies of a host to all its ports: the task must not get the cookie of the dashboard."""
        opened = self._web_pages.open(text_of(body, "job"), text_of(body, "component"))
        port = urlsplit(opened.url).port
        host = LOOPBACK if request.host.startswith("localhost") else "localhost"
        return {"url": f"http://{host}:{port}/", "task": opened.task}

    def do(self, name: str) -> Response:
        if self._shared:
            raise NotAllowedError(f"{name}: a shared page can change nothing")
        if name in ("job-plan", "job-start"):
            request.max_content_length = MOST_FILE
        action, body = self._actions.get(name), request.get_json(silent=True)
        if action is None:
            raise RefusedError(404, f"no action {name}")
        if not isinstance(body, dict):
            raise InputError("the body must be a JSON object")
        return jsonify(builtins(action(self._client, body)))


def create_app(pages: Pages) -> Flask:
    """Make the application. Close ``pages`` when done with it."""
    app = Flask("grass.dashboard", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY
    app.before_request(pages.check)
    app.after_request(_protect)
    app.add_url_rule(f"{OPEN}<secret>", view_func=pages.open)
    app.add_url_rule("/", "page", lambda: document("index.html"))
    app.add_url_rule("/assets/<path:name>", view_func=asset)
    app.add_url_rule("/me", view_func=pages.me)
    app.add_url_rule("/feed", view_func=pages.feed)
    app.add_url_rule("/ask/<name>", view_func=pages.ask)
    app.add_url_rule("/logs", view_func=pages.logs)
    app.add_url_rule("/log-file", view_func=pages.log_file)
    app.add_url_rule("/job-file", view_func=pages.job_file)
    app.add_url_rule("/files", view_func=pages.files)
    app.add_url_rule("/file", view_func=pages.file)
    app.add_url_rule("/preview", view_func=pages.preview)
    app.add_url_rule("/file-groups", view_func=pages.file_groups)
    app.add_url_rule("/do/<name>", view_func=pages.do, methods=["POST"])
    app.register_error_handler(RefusedError, _refused)
    app.register_error_handler(GrassError, _failed)
    app.register_error_handler(HTTPException, _unknown)
    return app


def _protect(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


@cache
def edition() -> str:
    """Return a digest of all files of the page. It is in their addresses, so a browser may keep them forever."""
    found = hashlib.sha256()
    for name in sorted(_page_files()):
        found.update(PAGE.joinpath(*name.split("/")).read_bytes())
    return found.hexdigest()[:16]


@cache
def _page_files() -> frozenset[str]:
    return frozenset(_names(PAGE, ""))


def _names(folder: Any, above: str) -> Iterator[str]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _names(each, f"{above}{each.name}/")
        else:
            yield above + each.name


def document(name: str) -> Response:
    """Answer with a document of the page, whose files have the addresses of this edition.

    Its classic scripts are written into it, because they load lost files again: they must never be lost themselves.
    """
    scripts = []

    def inline(found: re.Match[str]) -> str:
        scripts.append(read(found[1]))
        return f"<script>{scripts[-1]}</script>"

    text = read(name).replace("/assets/", f"/assets/{edition()}/")
    response = Response(_CLASSIC_SCRIPT.sub(inline, text), content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = _policy(scripts)
    return response


def asset(name: str) -> Response:
    """Answer with a file of the page. The browser keeps it, if the address names the edition."""
    wanted = name.removeprefix(f"{edition()}/")
    ending = name.rpartition(".")[2]
    if wanted not in _page_files() or ending not in TYPES:
        raise RefusedError(404, f"no file {name:.100}")
    content = PAGE.joinpath(*wanted.split("/")).read_bytes()
    response = Response(content, content_type=f"{TYPES[ending]}; charset=utf-8")
    if wanted != name:
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


def _events(pieces: Iterator[Message | None]) -> Response:
    """Answer with server-sent events. None: only a sign of life."""
    lines = (
        "event: alive\ndata: .\n\n" if piece is None else f"data: {json.dumps(builtins(piece))}\n\n" for piece in pieces
    )
    return Response(lines, content_type="text/event-stream")


def _as_json(answer: object) -> Response:
    """Answer with JSON. Flask's own encoder takes longer for thousands of rows than the cluster for its answer."""
    return Response(encode(answer), content_type="application/json")


def _error(status: int, code: str, message: str) -> Response:
    if request.accept_mimetypes.best == "text/html" or "text/html" in request.headers.get("Accept", ""):
        response = document("closed.html")
        response.set_data(response.get_data(as_text=True).replace("{message}", _escaped(message)))
        response.status_code = status
        return response
    response = jsonify({"error": {"code": code, "message": message}})
    response.status_code = status
    return response


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _refused(error: RefusedError) -> Response:
    return _error(error.status, "refused", str(error))


def _failed(error: GrassError) -> Response:
    status = 502 if isinstance(error, UnreachableError) else error.http_status
    return _error(status, error.code, str(error))


def _unknown(error: HTTPException) -> Response:
    status = error.code or 500
    return _error(status, "refused", f"{HTTPStatus(status).phrase}: {request.method} {request.path}")
