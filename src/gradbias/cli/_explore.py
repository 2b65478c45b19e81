"""`gradbias explore`: serve the page to this machine, and open it."""

import os
import webbrowser


def run(scene: str, port: int, browser: bool) -> None:
    """Serve until Ctrl-C."""
    from ..explore import Server, find

    anchor = f"#{find(scene).id}" if scene else ""
    with Server(port) as server:
        server.warm_up()
        address = server.address + anchor
        print(f"the explorer is at {address}; Ctrl-C ends it", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("ended", flush=True)
        if server.busy:  # XLA aborts a process whose interpreter ends while a thread compiles
            os._exit(0)
