"""``netplan explore``."""

import webbrowser
from threading import Timer
from urllib.parse import parse_qsl

import click

from netplan.cli.completion import completer_of
from netplan.cli.heartbeat import Heartbeat
from netplan.cli.output import say
from netplan.explore.server import HOST, free_port, make_app, serve_page
from netplan.explore.state import State
from netplan.setup.own_inputs import SCENARIO

OPEN_AFTER_S, LAST_PORT = 1.0, 65_535


@click.command("explore")
@click.argument(SCENARIO, default="", shell_complete=completer_of(SCENARIO))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2719, show_default=True, help="0 for any."
)
@click.option("--link", default="", metavar="LINK", help="Begin at the state of this link.")
@click.option("--no-browser", is_flag=True, help="Say the address only.")
def command(scenario: str, port: int, link: str, *, no_browser: bool) -> None:
    """Try what-ifs on a page in the browser: sliders, table, charts, a drawing.

    It begins as SCENARIO has it, a shipped name or a file [default: hgx-b200]. GPUs, switch ports,
    HB domains, oversubscription, prices and model follow the sliders; the page says the command
    that gives the same answer, and its address is a link to what it shows. Only this machine can
    reach it. Needs the extra `explore`.
    """
    text = link.partition("?")[2] or link
    state = State.of_link(dict(parse_qsl(text)), scenario)
    app = make_app(scenario)
    port = free_port(port)
    there = state.link()
    address = f"http://{HOST}:{port}/{f'?{there}' if there else ''}"
    say(f"{address}  (Ctrl-C ends it)")
    Heartbeat.quiet = True
    if not no_browser:
        Timer(OPEN_AFTER_S, webbrowser.open, [address]).start()
    serve_page(app, port)
