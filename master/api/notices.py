"""`/v1/notice`: where the master is, signed (``grass.api.notice``). Used by ``app``, ``call`` and ``handlers``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flask import Flask, Response

from grass.api.notice import MEDIA_TYPE
from grass.config import ClusterConfig
from grass.supervision.moved import number
from grass.wire.notice import Notice
from grass.wire.views import NoticeView
from master.api.authentication import Authenticator

if TYPE_CHECKING:
    from master.api.call import Call


class Notices:
    """The signed notice of this master. It is signed once for each content: anybody may ask for it."""

    def __init__(self, config: ClusterConfig, authenticator: Authenticator) -> None:
        self._config = config
        self._authenticator = authenticator
        self._signed: tuple[Notice, str] | None = None

    def number(self) -> tuple[int, int]:
        return number(self._config)

    def text(self) -> str:
        notice = Notice(self._config.name, self._config.api_urls, *self.number())
        known = self._signed
        if known is None or known[0] != notice:
            known = self._signed = notice, self._authenticator.sign_notice(notice)
        return known[1]


def add_route(app: Flask, notices: Notices) -> None:
    app.add_url_rule("/v1/notice", "notice", partial(_answer, notices), provide_automatic_options=False)


def _answer(notices: Notices) -> Response:
    return Response(notices.text(), mimetype=MEDIA_TYPE)


def show_notice(call: Call) -> NoticeView:
    """Answer the notice to a user, who may carry it to a machine."""
    return NoticeView(call.api.notices.text())
