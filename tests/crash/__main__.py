"""Fifty kills of a broker under load, with everything looked at after each: `make crash`.

PYTHONPATH=tests python -m crash --kills 5 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from crash import restarts
from crash.campaign import Campaign, Restart, stops_among
from rocketline.errors import RocketlineError


def kill_often(campaign: Campaign, kills: int, console: Console) -> list[Restart]:
    """Run it behind a progress bar."""
    done: list[Restart] = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("ends and restarts", total=kills + stops_among(kills))

        def tell(restart: Restart) -> None:
            done.append(restart)
            back = f"back after {restart.serving_s:.2f} s with {restart.messages} messages"
            progress.update(task, advance=1, description=back)

        asyncio.run(campaign.run(kills, tell))
    return done


def summary(campaign: Campaign, done: list[Restart]) -> str:
    ledger, serving = campaign.ledger, [restart.serving_s for restart in done]
    kills = sum(restart.round.is_kill for restart in done)
    in_recovery = sum(restart.round.kills_in_recovery for restart in done)
    refused = "".join(f"\n  answered otherwise {count} times: {what}" for what, count in ledger.refused.items())
    return (
        f"{kills} kills under load, {in_recovery} in recovery, {len(done) - kills} clean stops: nothing wrong\n"
        f"  {ledger.acknowledged} messages acknowledged, each at its place; {ledger.unanswered} without an answer; "
        f"{len(ledger.recalled)} called back\n"
        f"  {len(ledger.committed)} transactions committed, {ledger.answers} times because the broker asked\n"
        f"  {done[-1].messages} in {len(ledger.topics)} topics, {done[-1].log_bytes / 2**20:.0f} MiB of log\n"
        f"  serving {statistics.median(serving):.2f} s after a start (median), {max(serving):.2f} s at most{refused}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="how often, under load (50)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="repeats a run's random choices")
    parser.add_argument("--flush", choices=("SYNC_FLUSH", "ASYNC_FLUSH"), default="SYNC_FLUSH")
    parser.add_argument("--log-mib", type=int, default=1024, help="size of the log whose recovery is timed; 0: none")
    options = parser.parse_args()
    console = Console()
    console.print(f"{options.kills} kills, {options.flush}, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rocketline-crash-") as folder:
        campaign = Campaign(Path(folder) / "broker", options.seed, flushDiskType=options.flush)
        try:
            if options.kills:
                console.print(summary(campaign, kill_often(campaign, options.kills, console)))
            if options.log_mib:
                restarts.measure(Path(folder), options.log_mib << 20, console)
        except (AssertionError, RocketlineError) as error:
            console.print(f"[red]{type(error).__name__}[/]: --seed {options.seed}")
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
