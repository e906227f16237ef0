"""Sends events to keyfold's HTTP API. Needs Python 3.9 and no package.

    KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... python3 http_api.py search 12345 'hiking boots'
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

from event import event_from_arguments, to_json


class Refused(Exception):
    pass


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # a redirected POST would lose its body


class KeyfoldApi:
    # 0: no answer came. The others say that it may work later.
    PASSING = {0, 408, 429, 502, 503, 504}

    def __init__(self, url, token="", timeout=5.0, attempts=4):
        self._endpoint = url + "/v1/events"
        self._headers = {"Content-Type": "application/x-ndjson"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._attempts = attempts
        self._opener = urllib.request.build_opener(NoRedirect)

    def send(self, events):
        """Store events, all or none, and return their message ids.

        Whatever goes wrong on the way, sending the same events again is safe.
        """
        body = "\n".join(map(to_json, events)).encode()
        for attempt in range(1, self._attempts + 1):
            status, retry_after, answer = self._post(body)
            if status == 202:
                return json.loads(answer)["message_ids"]
            if status not in self.PASSING or attempt == self._attempts:
                raise Refused(f"keyfold answered {status}: {answer}")
            time.sleep(2 ** (attempt - 1) if retry_after is None else retry_after)

    def _post(self, body):
        """Return status, seconds of Retry-After or None, and the body."""
        request = urllib.request.Request(self._endpoint, body, self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return response.status, None, response.read().decode()
        except urllib.error.HTTPError as error:  # the body of a 400 says what is wrong
            with error:
                seconds = error.headers.get("Retry-After", "")
                return error.code, int(seconds) if seconds.isdecimal() else None, error.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, None, str(error)


if __name__ == "__main__":
    api = KeyfoldApi(os.environ.get("KEYFOLD_URL") or "http://127.0.0.1:7080", os.environ.get("KEYFOLD_TOKEN", ""))
    try:
        print("\n".join(api.send([event_from_arguments()])))
    except Refused as error:
        sys.exit(str(error))
