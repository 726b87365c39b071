"""Twenty-odd tables as strangers write them: one plant, told in many ways."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

RUNS, ROWS = 12, 40
SENSORS = ("pressure", "flow", "vibration", "temperature")
GERMAN = ("Druck", "Durchfluß", "Schwingung", "Temperatur")
STATES = ("normal", "worn", "clogged")
DAY = pd.Timestamp("2024-03-09 08:00:00")


@dataclass(frozen=True)
class Stranger:
    """A table, and what a person would read in it."""

    write: Callable[[Path], object]  # into a folder
    channels: tuple[str, ...] = SENSORS
    regimes: tuple[str, ...] = tuple(sorted(STATES))
    lengths: tuple[int, ...] = (ROWS,) * RUNS
    groups: int | None = None
    step: float = 1.0
    says: tuple[str, ...] = ()  # in the notes
    question: str = ""  # a regular expression; the table is doubtful
    same: bool = True  # whether the measurements are those of `plant`


def plant(runs: int = RUNS, rows: int = ROWS) -> pd.DataFrame:
    """Sensors of a plant in three states, one recording after the other."""
    rng = np.random.default_rng(3)
    state = np.arange(runs) % len(STATES)
    values = rng.standard_normal((runs, rows, len(SENSORS)))
    for t in range(1, rows):
        values[:, t] += 0.8 * values[:, t - 1]
    values += 2.0 * state[:, None, None]
    frame = pd.DataFrame(values.reshape(-1, len(SENSORS)).round(4), columns=list(SENSORS))
    second = np.tile(np.arange(rows), runs)
    frame.insert(0, "run", np.repeat(np.arange(runs), rows))
    frame.insert(1, "t", second.astype(float))
    frame.insert(2, "state", np.repeat(np.array(STATES)[state], rows))
    return frame


def dated(frame: pd.DataFrame, apart: str = "1h") -> pd.Series:
    """Dates at 1 Hz; runs begin this long after each other."""
    return DAY + frame["run"] * pd.Timedelta(apart) + pd.to_timedelta(frame["t"], unit="s")


def save(frame: pd.DataFrame, name: str = "data.csv", **how: object) -> Callable[[Path], object]:
    return lambda folder: frame.to_csv(folder / name, index=False, **how)  # type: ignore[arg-type]


def text(
    content: str, name: str = "data.csv", encoding: str = "utf-8"
) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content.encode(encoding))


def _bare() -> pd.DataFrame:
    return plant().drop(columns=["run", "t", "state"])


def _with(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns).join(_bare())


def _one_log(**columns: object) -> pd.DataFrame:
    """One recording without a break that goes through the states."""
    base = plant()
    clock = DAY + pd.to_timedelta(np.arange(len(base)), unit="s")
    return _with(timestamp=clock, mode=base["state"], **columns)


def _files(named: Callable[[int, str], str], **columns: bool) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        for k, one in plant().groupby("run"):
            path = folder / named(int(k), str(one["state"].iloc[0]))
            path.parent.mkdir(exist_ok=True)
            dropped = ["run"] + ([] if columns.get("state") else ["state"])
            one.drop(columns=dropped).to_csv(path, index=False)

    return write


def _german() -> str:
    base = plant()
    stamps = dated(base)
    names = {"normal": "Normal", "worn": "Verschleiß", "clogged": "Verstopft"}
    frame = pd.DataFrame({
        "Datum": stamps.dt.strftime("%d.%m.%Y"), "Uhrzeit": stamps.dt.strftime("%H:%M:%S"),
        "Versuchsnummer": base["run"] + 1, "Betriebsart": base["state"].map(names),
    }).join(_bare().set_axis([*GERMAN], axis=1))  # fmt: skip
    return frame.to_csv(index=False, sep=";", decimal=",")


def _chinese() -> str:
    base = plant()
    names = {"normal": "正常", "worn": "磨损", "clogged": "堵塞"}
    frame = pd.DataFrame({
        "时间": dated(base).dt.strftime("%Y/%m/%d %H:%M:%S"), "试验编号": base["run"] + 1,
        "工况": base["state"].map(names),
    }).join(_bare().set_axis(["压力", "流量", "振动", "温度"], axis=1))  # fmt: skip
    return frame.to_csv(index=False)


def _units() -> str:
    base = plant()
    frame = pd.DataFrame({"Time": base["t"], "Run": base["run"], "State": base["state"]})
    head, _, body = frame.join(_bare()).to_csv(index=False).partition("\n")
    return f"{head}\ns,-,-,bar,m3/h,mm/s,°C\n{body}"


def _logs() -> str:
    """Logs of the same logger, one after the other, each with its header and its preamble."""
    parts = []
    for k, one in plant().groupby("run"):
        table = one.drop(columns="run").to_csv(index=False)
        parts.append(table if k else "# logger 7, firmware 1.2; channels: 4\n# site A\n" + table)
    return "\n".join(parts)


def _machines() -> pd.DataFrame:
    base = plant()
    machine = base["run"] // 3  # four machines, each in all states
    return _with(machine=machine.map("M{}".format), run_id=base["run"] + 100,
                 seconds=base["t"], condition=base["state"])  # fmt: skip


def _zipped(folder: Path) -> None:
    with zipfile.ZipFile(folder / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for k, one in plant().groupby("run"):
            name = f"export/trial_{k + 1}.csv"
            archive.writestr(name, one.drop(columns="run").to_csv(index=False))
        archive.writestr("export/readme.txt", "exported")


def _excel(folder: Path) -> None:
    base = plant()
    frame = _with(timestamp=dated(base), run_no=base["run"], condition=base["state"])
    frame.to_excel(folder / "data.xlsx", index=False)


def _hive(folder: Path) -> None:
    for k, one in plant().groupby("run"):
        path = folder / f"state={one['state'].iloc[0]}" / f"run={k}"
        path.mkdir(parents=True)
        one.drop(columns=["run", "state"]).to_parquet(path / "part-0.parquet", index=False)


def _zones() -> pd.Series:
    """Local times around the end of summer time."""
    base = plant()
    utc = dated(base) - DAY + pd.Timestamp("2024-10-26 20:30", tz="UTC")
    local = utc.dt.tz_convert("Europe/Berlin")
    return local.map(lambda stamp: stamp.isoformat())


def _setpoint() -> np.ndarray:
    """What an operator has set: it changes inside of recordings, at times of its own."""
    rng = np.random.default_rng(1)
    return np.repeat(rng.choice([40, 50, 60], RUNS * ROWS // 16), 16)


def strangers() -> dict[str, Stranger]:
    """Every table by name."""
    base = plant()
    stamp = dated(base)
    run, state = base["run"], base["state"]
    rng = np.random.default_rng(0)
    jitter = np.cumsum(rng.random(ROWS) < 0.08) + np.arange(ROWS)
    return {
        "integer ids": Stranger(save(_with(timestamp=stamp, run_id=run, condition=state))),
        "text ids": Stranger(save(_with(
            timestamp=stamp, run_id=run.map("R-{:03d}".format), condition=state))),
        "numbers of blocks": Stranger(save(_with(probe=run + 1, mode=state))),
        "ids that nobody named": Stranger(
            save(_with(t=base["t"], probe=run * 7 % 12, condition=state)),
            says=("series = probe (detected: the time goes back where it changes)",)),
        "no id, the clock restarts": Stranger(save(_with(seconds=base["t"], condition=state)),
            says=("wherever seconds goes back",)),
        "one long recording": Stranger(save(_one_log()), says=("split where mode changes",)),
        "labels of rows": Stranger(
            save(_with(t=np.tile(np.arange(2 * ROWS) / 2, RUNS // 2), run=run // 2, label=state)),
            lengths=(2 * ROWS,) * (RUNS // 2), step=0.5),
        "regimes in file names": Stranger(_files(lambda k, state: f"{state}_{k:02d}.csv"),
            says=("regime = words of the file names",)),
        "ids in file names": Stranger(_files("2024-03-{:02d}_{}.csv".format, state=True)),
        "dates in file names": Stranger(
            _files(lambda k, state: f"pump_2024-03-{k + 1:02d}.csv", state=True)),
        "wide time zones": Stranger(save(_with(
            timestamp=stamp.dt.strftime("%Y-%m-%dT%H:%M:%S+05:30"), run=run, state=state))),
        "the end of summer time": Stranger(save(_with(time=_zones(), trial=run, state=state))),
        "German, decimal commas": Stranger(text(_german()),
            channels=GERMAN,
            regimes=("Normal", "Verschleiß", "Verstopft"),
            says=("time = Datum,Uhrzeit (detected)", "decimal commas")),
        "German of an old logger": Stranger(text(_german(), encoding="cp1252"),
            channels=GERMAN,
            regimes=("Normal", "Verschleiß", "Verstopft"), says=("Windows-1252",)),
        "Chinese": Stranger(text(_chinese(), encoding="utf-8-sig"),
            channels=("压力", "流量", "振动", "温度"), regimes=("堵塞", "正常", "磨损")),
        "Chinese of a spreadsheet": Stranger(text(_chinese(), encoding="gb18030"),
            channels=("压力", "流量", "振动", "温度"), regimes=("堵塞", "正常", "磨损"),
            says=("GB18030",)),
        "Unicode text of a spreadsheet": Stranger(
            text(base.to_csv(index=False, sep="\t"), encoding="utf-16")),
        "a row of units": Stranger(text(_units()), says=("units",)),
        "logs with headers in between": Stranger(text(_logs()),
            says=("11 repeated headers", "2 lines of comments")),
        "empty lines, separators at the end": Stranger(text(
            base.to_csv(index=False).replace("\n", ",\n").replace("\n11,", "\n\n11,"))),
        "machines": Stranger(save(_machines()), groups=4, says=("group = machine (detected)",)),
        "a change point beside the anomaly": Stranger(save(_with(
            datetime=dated(base.assign(run=run // 2, t=np.arange(len(base)) % (2 * ROWS))),
            experiment=run // 2, anomaly=(state != "normal").astype(float),
            changepoint=(base["t"] == 0).astype(float))), regimes=("0.0", "1.0"),
            lengths=(2 * ROWS,) * (RUNS // 2), says=("left out: changepoint (",)),
        "a code beside the mode": Stranger(save(_with(
            t=base["t"], run=run, mode=state, code=state.str.len())),
            says=("code (tells the regime)",)),
        "a set-point": Stranger(save(base.assign(setpoint=_setpoint())),
            channels=(*SENSORS, "setpoint"), same=False),
        "coarse sensors": Stranger(save(base.assign(
            level=np.round(base["flow"]), valve=(base["flow"] > 2).astype(int))),
            channels=(*SENSORS, "level", "valve"), same=False),
        "a regime that nobody named": Stranger(save(_with(
            t=base["t"], Lauf=run, Befund=state, Bemerkung=np.where(run == 3, "Tür offen", "")))),
        "batches and cycles": Stranger(save(_with(
            time_s=base["t"], batch_no=run // 4, cycle_no=run % 4, status=state))),
        "subjects whose trials have no number": Stranger(save(_with(
            t=base["t"], subject=run // 3, activity=state)), groups=4),
        "an index, two clocks, a counter": Stranger(
            lambda folder: _with(timestamp=stamp, elapsed_seconds=stamp.astype("int64") / 1e9,
                                 sample_no=np.arange(len(base)), file=run.map("f{}.dat".format),
                                 class_=state).rename(columns={"class_": "class"})
            .to_csv(folder / "data.csv")),
        "steps of slightly uneven length": Stranger(save(_with(
            timestamp=DAY + run * pd.Timedelta("1h") + pd.to_timedelta(np.tile(jitter, RUNS), "s"),
            run=run, state=state))),
        "thousands": Stranger(save(base.assign(
            speed=(1000 * base["flow"] + 5000).map("{:,.1f}".format))),
            channels=(*SENSORS, "speed"), same=False),
        "a spreadsheet": Stranger(_excel),
        "a zip": Stranger(_zipped),
        "a folder of Parquet": Stranger(_hive),
        "numbers that may be names": Stranger(
            save(_with(probe=run * 7 % 12, mode=state)),
            question="probe.*--series probe.*--channels"),
        "two columns that may be the regime": Stranger(
            save(_with(t=base["t"], run=run, oil=np.repeat([*"ABAB"], len(base) // 4),
                       valve=state)),
            question="--regime oil.*--regime valve"),
    }  # fmt: skip
