"""An OpenID provider on a free port of 127.0.0.1, for tests.

Prints "ready PORT" once it answers, and exits when its standard input closes. A user is made by
PUT /users/SUB with the claims as JSON; the login form takes the subject alone.
"""

import logging
import os
import sys
import threading

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from oidc_provider_mock import app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, app(require_nonce=True), threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"ready {server.server_port}", flush=True)
sys.stdin.read()
